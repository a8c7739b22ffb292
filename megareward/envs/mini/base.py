"""What all mini games share: the order of events in a step, lives, episode ends, the extras, cloning.

A game adds its rules (`begin`, `advance`) and its looks (`scenery`, `objects`), all without a loop over the
environments and without asking the device for a value. Everything that differs between two environments is in
`progress` and `game`, two tuples of tensors with leading axis N; a frame is a pure function of these.
"""

import copy
from abc import ABC, abstractmethod
from typing import ClassVar, Generic, NamedTuple

import torch

from megareward.envs.interface import Step
from megareward.envs.mini.config import MiniConfig
from megareward.envs.mini.drawing import CEILING, CEILING_THICKNESS, FIELD, Canvas, Shape, paint
from megareward.envs.mini.hashed_rng import WORDS_PER_STEP, Draws, HashedRandom, environment_keys, random_words
from megareward.envs.mini.motion import State, choose
from megareward.errors import RunError, UsageError
from megareward.types import Bool, Float, Int, Tensor, UInt8

FLASH_STEPS = 8
"""Steps from a death to the loss of the life, if the screen flashes; every other frame is inverted."""
TV_HEIGHT, TV_WIDTH = 6, 8
"""Noisy TV in units; one random grey level per square unit."""
DISTRACTOR_SIDE = 3.0


class Progress(NamedTuple):
    """The state of each environment, apart from that of the game itself."""

    key: Int[Tensor, "N"]
    """Seeds this environment's random numbers."""
    clock: Int[Tensor, "N"]
    """Calls of `send` since `reset`, through all episodes."""
    steps: Int[Tensor, "N"]
    """Decisions taken in this episode."""
    lives: Int[Tensor, "N"]
    dying: Int[Tensor, "N"]
    """Steps of flashing left until a life is lost; 0 while alive."""
    over: Bool[Tensor, "N"]
    """The episode ended with the last frame: the next step opens a new one."""
    lost: Bool[Tensor, "N"]
    """A life was lost with the last frame, which counts as an end: the next frame is a `first`, though play goes on."""


class Outcome(NamedTuple):
    """The result of one step by the rules of a game."""

    rewards: Float[Tensor, "N"]
    died: Bool[Tensor, "N"]
    won: Bool[Tensor, "N"]
    """The game is over although the player lives."""


class MiniGame(ABC, Generic[State]):
    """N copies of one mini game; a `BatchedEnv`. Actions that the game does not have do nothing."""

    action_names: ClassVar[tuple[str, ...]]
    random_ranges: ClassVar[dict[str, int]]
    """The random numbers of one step: name and how many values it can take."""
    frame_skip: int = 1
    n_groups: int = 1
    game: State

    def __init__(self, n_envs: int, config: MiniConfig, device: torch.device) -> None:
        if n_envs < 1:
            raise UsageError(f"n_envs={n_envs} leaves nothing to play; choose 1 or more.")
        self.n_envs, self.config, self.device = n_envs, config, device
        self.n_actions = len(self.action_names)
        self.frame_shape = (config.size, config.size)
        self._canvas = Canvas.of_size(config.size, device)
        self._background = torch.zeros(1, *self.frame_shape, dtype=torch.uint8, device=device)
        if not config.moving_camera:
            paint(self._background, self.scenery(self._canvas))
        self._random = HashedRandom(self.random_ranges, device)
        self._tv_numbers = torch.arange(WORDS_PER_STEP - TV_HEIGHT * TV_WIDTH, WORDS_PER_STEP, device=device)
        # The unit of playfield, and so the number of the noise, that each pixel of the noisy TV shows.
        pixels = Canvas.of_size(config.size, torch.device("cpu")).rows[0]
        self._tv_rows = pixels[pixels < TV_HEIGHT].long().to(device)
        self._tv_columns = pixels[pixels < TV_WIDTH].long().to(device)
        self.reset(seed=0)

    @classmethod
    def make(
        cls, name: str, n_envs: int, config: MiniConfig, *, hide_score: bool, device: torch.device, in_groups: bool
    ) -> "MiniGame[State]":
        """Builds this game for the list of games. It draws no score that could be hidden, and has no groups."""
        return cls(n_envs, config, device)

    # ---- the rules and looks of one game ----

    @abstractmethod
    def begin(self, draws: Draws) -> State:
        """The first state of an episode."""

    @abstractmethod
    def advance(self, game: State, actions: Int[Tensor, "N"], draws: Draws) -> tuple[State, Outcome]:
        """One step. A state in which the player just died is continued with the next life."""

    @abstractmethod
    def scenery(self, canvas: Canvas) -> list[Shape]:
        """What never changes."""

    @abstractmethod
    def objects(self, game: State, canvas: Canvas) -> list[Shape]:
        """What moves or vanishes; where two overlap, the brighter is seen."""

    @abstractmethod
    def player_offset(self, game: State) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
        """How far down and right of its middle place the player is: what the moving camera follows."""

    # ---- BatchedEnv ----

    def reset(self, seed: int) -> Step:
        key = environment_keys(seed, self.n_envs, self.device)
        zeros, no = torch.zeros_like(key), torch.zeros_like(key, dtype=torch.bool)
        self.progress = Progress(key, zeros, zeros, zeros + self.config.starting_lives, zeros, no, no)
        self.game = self.begin(self._random.draw(key, zeros))
        self._pending: Step | None = None
        return Step(self.frames(), zeros.float(), terminated=no, truncated=no, first=~no, episode_over=no)

    def send(self, actions: Int[Tensor, "N"]) -> None:
        """Take one decision in every environment. On a GPU this only queues the work."""
        if actions.shape != (self.n_envs,):
            raise UsageError(f"actions of shape {tuple(actions.shape)} do not fit; give one for each of {self.n_envs}.")
        if self._pending is not None:
            raise RunError("send was called twice; recv collects the first step.")
        self._pending = self._play(actions.to(self.device))

    def recv(self) -> Step:
        """What the environments show after it."""
        if self._pending is None:
            raise RunError("recv was called without send; send the actions first.")
        step, self._pending = self._pending, None
        return step

    def step(self, actions: Int[Tensor, "N"]) -> Step:
        """`send` and `recv`."""
        self.send(actions)
        return self.recv()

    def close(self) -> None:
        """Nothing to release."""

    def _play(self, actions: Int[Tensor, "N"]) -> Step:
        """The order of events in one step."""
        before, config = self.progress, self.config
        clock = before.clock + 1
        draws = self._random.draw(before.key, clock)
        after, outcome = self.advance(self.game, actions, draws)
        first = before.over
        if config.death_flash:
            frozen = (before.dying > 0) & ~first
            playing = ~(first | frozen)
            after = choose(frozen, self.game, after)
            life_lost = frozen & (before.dying == 1)
            dying = torch.where(outcome.died & playing, FLASH_STEPS, (before.dying - 1).clamp(min=0)) * ~first
        else:
            playing = ~first
            life_lost, dying = outcome.died & playing, before.dying
        self.game = choose(first, self.begin(draws), after)
        lives = torch.where(first, config.starting_lives, before.lives - life_lost.long())
        steps = (before.steps + 1) * ~first

        game_over = (lives == 0) | (outcome.won & playing)
        truncated = (steps >= config.max_steps) & ~game_over
        over = game_over | truncated
        lost = life_lost & ~over & config.life_loss_is_terminal
        self.progress = Progress(before.key, clock, steps, lives, dying, over, lost)
        return Step(
            frames=self.frames(),
            rewards=outcome.rewards * playing,
            terminated=game_over | life_lost if config.life_loss_is_terminal else game_over,
            truncated=truncated,
            first=first | before.lost,
            episode_over=over,
        )

    # ---- cloning ----

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of all tensors, by name; the leading axis is always N."""
        if self._pending is not None:
            raise RunError("A step is under way; call recv before state_dict.")
        return {name: value.clone() for name, value in self._state().items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore a state from `state_dict`, of this game and this number of environments."""
        for name, mine in self._state().items():
            shape = tuple(state[name].shape) if name in state else "missing"
            if shape != tuple(mine.shape):
                raise UsageError(
                    f"{name!r} is {shape} in the state but {tuple(mine.shape)} in this {type(self).__name__};"
                    " load a state of the same game and n_envs."
                )
        self._restore({name: state[name].to(self.device, copy=True) for name in self._state()})

    def select(self, index: Int[Tensor, "M"]) -> "MiniGame[State]":
        """Copies of the M indexed environments, with the same future random numbers: branches to compare."""
        branches = copy.copy(self)
        branches.n_envs = len(index)
        branches._restore({name: value[index.to(self.device)] for name, value in self._state().items()})
        return branches

    def _state(self) -> dict[str, Tensor]:
        return self.progress._asdict() | self.game._asdict()

    def _restore(self, state: dict[str, Tensor]) -> None:
        self.progress = Progress._make(state[name] for name in Progress._fields)
        self.game = type(self.game)._make(state[name] for name in self.game._fields)
        self._pending = None

    # ---- looks ----

    def frames(self) -> UInt8[Tensor, "N px_h px_w"]:
        """The picture of the present state."""
        canvas = self._view()
        frames = self._background.repeat(self.n_envs, 1, 1)
        if self.config.moving_camera:
            paint(frames, self.scenery(canvas))
        paint(frames, self._shapes(canvas))
        if self.config.noisy_tv:
            self._draw_tv(frames)
        if self.config.death_flash:
            frames ^= (self.progress.dying % 2 * 255).to(torch.uint8)[:, None, None]
        return frames

    def object_masks(self) -> dict[str, Bool[Tensor, "N px_h px_w"]]:
        """For audits and tests: the pixels of every object in the present frame, by name."""
        masks: dict[str, Tensor] = {}
        for name, pixels in self._shapes(self._view()):
            mask = (pixels > 0).expand(self.n_envs, -1, -1)
            masks[name] = masks[name] | mask if name in masks else mask
        if self.config.noisy_tv:
            screen = self._canvas.box(0.0, 0.0, float(TV_HEIGHT), float(TV_WIDTH), level=1).bool()
            masks = {name: mask & ~screen for name, mask in masks.items()}
            masks["noisy_tv"] = screen.expand(self.n_envs, -1, -1)
        return masks

    def _view(self) -> Canvas:
        if not self.config.moving_camera:
            return self._canvas
        down, right = self.camera().unbind(1)
        return self._canvas.seen_from(camera_y=down, camera_x=right)

    def camera(self) -> Float[Tensor, "N 2"]:
        """How far the moving camera is down and right of where it began, in playfield units."""
        return torch.stack(self.player_offset(self.game), 1) / 2

    def camera_in_pixels(self) -> Int[Tensor, "N 2"]:
        """The same in whole pixels, as in the picture: a pixel shows what is at its centre."""
        return (self.camera() * (self.config.size / FIELD) + 0.5).floor().long()

    def _shapes(self, canvas: Canvas) -> list[Shape]:
        shapes = self.objects(self.game, canvas)
        return [*shapes, self._distractor(canvas)] if self.config.distractor else shapes

    def _draw_tv(self, frames: UInt8[Tensor, "N px_h px_w"]) -> None:
        """In front of everything and fixed to the screen: no camera moves it."""
        words = random_words(self.progress.key, self.progress.clock, self._tv_numbers)
        noise = (words >> 24).to(torch.uint8).view(-1, TV_HEIGHT, TV_WIDTH)
        rows, columns = self._tv_rows, self._tv_columns
        frames[:, : len(rows), : len(columns)] = noise[:, rows][:, :, columns]

    def _distractor(self, canvas: Canvas) -> Shape:
        """Runs to and fro above the ceiling, one unit a step, from a place of its own in every environment."""
        time = self.progress.clock + self.progress.key
        left, right = TV_WIDTH + 1, int(FIELD - DISTRACTOR_SIDE)
        lowest = int(CEILING - CEILING_THICKNESS - DISTRACTOR_SIDE)
        x = left + (time % (2 * (right - left)) - (right - left)).abs().float()
        y = (time % (4 * lowest) - 2 * lowest).abs() / 2
        return Shape("distractor", canvas.box(y, x, DISTRACTOR_SIDE, DISTRACTOR_SIDE, level=160))
