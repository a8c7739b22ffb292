"""Atari games as a batch of environments, on ale-py's own vector emulator.

What the emulator does, measured and kept by `tests/unit/envs/test_atari.py`:

- Its limit of an episode counts emulator frames after the no-op start, whatever its parameter is called.
- In mode NEXT_STEP the stream holds every frame once and in order. SAME_STEP would hide the last frame in a side
  channel and report the lives of the next game with it.
- Its `episodic_life` starts a whole new game at each lost life, so lives are watched here.
- Environment n gets seed + n, so that runs with neighbouring seeds would share almost all episodes; seeds are
  spread here.
- Arrays it returns are never written again, so a tensor may share their memory.
- One flaw stays: it ends a decision before looking at the screen in which the game ended, so the last frame of an
  episode repeats the one before it (at a time limit: the brighter of the two). Rewards and flags are right.
"""

from contextlib import nullcontext
from typing import Any

import ale_py
import numpy as np
import torch
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import AutoresetMode

from megareward.envs import score_masks
from megareward.envs.atari_config import AtariConfig
from megareward.envs.groups import Groups
from megareward.envs.interface import BatchedEnv, Step
from megareward.errors import RunError, UsageError
from megareward.types import Int, Tensor
from megareward.waiting import waiting

SECONDS_TO_BUILD = 0.14
"""Seconds to build one emulator; ale-py builds them one after the other."""


class Atari:
    """N copies of one Atari game; a `BatchedEnv`. Rows of every tensor are in the order of the environments."""

    device = torch.device("cpu")
    n_groups = 1

    def __init__(self, rom: str, n_envs: int, config: AtariConfig, *, hide_score: bool, n_before: int = 0) -> None:
        """`rom` is a canonical name (`resolve_game`). With `hide_score` a game of unknown score box is refused.

        `n_before`: these are the environments number n_before, n_before + 1, ... of a larger batch, and get its seeds.
        """
        if n_envs < 1:
            raise UsageError(f"{n_envs} environments cannot be stepped; ask for at least 1.")
        if hide_score or config.hide_lives or config.hide_other:
            score_masks.require_boxes(rom, config.allow_visible_score)
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # no banner per environment
        with waiting(f"Building {n_envs} emulators", n_envs * SECONDS_TO_BUILD) if n_envs > 4 else nullcontext():
            self._emulator = self._build(rom, n_envs, config)
        self.n_envs, self._n_before = n_envs, n_before
        self.action_names = tuple(action.name for action in self._emulator.ale.get_action_set())
        self.n_actions = len(self.action_names)
        self.frame_shape = (config.px, config.px)
        self.frame_skip = config.frame_skip
        self._life_loss_is_terminal = config.life_loss_is_terminal
        serves = config.fire_after_life and config.life_loss_is_terminal and "FIRE" in self.action_names
        self._fire = self.action_names.index("FIRE") if serves else None
        self._painted = score_masks.frame_boxes(
            rom, self.frame_shape, score=hide_score, lives=config.hide_lives, other=config.hide_other
        )
        self._full_paddle = [1.0] * n_envs
        self._lives = np.zeros(n_envs, np.int32)
        self._over = np.zeros(n_envs, bool)
        self._opens = np.zeros(n_envs, bool)
        """A life was lost with the last frame, and that counts as an end: the next frame is a `first`. If the game
        waits for FIRE, the next action is FIRE, whatever the agent chose."""
        self._waiting = False

    def _build(self, rom: str, n_envs: int, config: AtariConfig) -> Any:
        return AtariVectorEnv(
            rom,
            n_envs,
            num_threads=config.threads,
            max_num_frames_per_episode=config.max_frames,
            repeat_action_probability=config.sticky,
            full_action_space=config.full_actions,
            autoreset_mode=AutoresetMode.NEXT_STEP,
            img_height=config.px,
            img_width=config.px,
            stack_num=1,
            frameskip=config.frame_skip,
            noop_max=config.noop_max,
            use_fire_reset=config.fire_reset,
            reward_clipping=False,
        )

    def reset(self, seed: int) -> Step:
        if self._waiting:  # an interrupted run may leave a step behind
            self.recv()
        # 31 bits: the emulator takes a negative seed for "keep the old one"
        seeds = np.random.SeedSequence(seed).generate_state(self._n_before + self.n_envs)[self._n_before :] >> 1
        with waiting(f"Starting {self.n_envs} games") if self.n_envs > 4 else nullcontext():
            frames, info = self._emulator.reset(seed=seeds.astype(np.int64))
        self._opens[:] = False
        self._over = np.ones(self.n_envs, bool)  # whatever came before, every frame is now a first one
        rewards, terminated, truncated = (np.zeros(self.n_envs, kind) for kind in (np.float32, bool, bool))
        return self._step(frames, rewards, terminated, truncated, info)

    def send(self, actions: Int[Tensor, "N"]) -> None:
        if self._waiting:
            raise RuntimeError("two sends in a row; call recv() after each send(actions)")
        chosen = actions.tolist()
        if min(chosen) < 0 or max(chosen) >= self.n_actions:  # the emulator would wait for ever
            raise ValueError(f"actions {chosen} must be between 0 and {self.n_actions - 1}")
        if self._fire is not None:
            for n in np.flatnonzero(self._opens):
                chosen[n] = self._fire
        # Lists, past ale-py's own `send`: its arrays are converted number by number, which takes twice as long.
        self._emulator.ale.send(chosen, self._full_paddle)
        self._waiting = True

    def recv(self) -> Step:
        if not self._waiting:  # the emulator would wait for ever
            raise RuntimeError("there is nothing to receive; call send(actions) before recv()")
        answer = self._emulator.recv()
        self._waiting = False
        return self._step(*answer)

    def _step(
        self, frames: np.ndarray, rewards: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, info: dict
    ) -> Step:
        frames = frames[:, 0]  # (N, px_h, px_w)
        score_masks.paint(frames, self._painted)  # before anything else can see the frames
        first = self._over | self._opens
        self._over = terminated | truncated
        life_lost = (info["lives"] < self._lives) & ~first
        self._lives = info["lives"]
        if self._life_loss_is_terminal:
            terminated = terminated | life_lost
            self._opens = life_lost & ~self._over
        return Step(
            frames=torch.from_numpy(frames),
            rewards=torch.from_numpy(rewards.astype(np.float32)),
            terminated=torch.from_numpy(terminated),
            truncated=torch.from_numpy(truncated),
            first=torch.from_numpy(first),
            episode_over=torch.from_numpy(self._over.copy()),  # the original is still needed
        )

    def state_dict(self) -> None:
        """None: the state of the vector emulator cannot be saved. A resumed run starts new episodes."""

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        raise RunError("Atari episodes cannot be restored; start new ones with reset(seed).")

    def close(self) -> None:
        """Stop the emulator's threads: they end with the last reference to it."""
        self.__dict__.pop("_emulator", None)


def make(
    rom: str, n_envs: int, config: AtariConfig, *, hide_score: bool, device: torch.device, in_groups: bool
) -> BatchedEnv:
    """Builds the Atari games of the list (`envs.games`). ALE runs on the CPU, wherever the training happens."""
    if not in_groups or config.groups == 1:
        return Atari(rom, n_envs, config, hide_score=hide_score)
    n = n_envs // config.groups
    if n * config.groups != n_envs:
        raise UsageError(f"{n_envs} environments cannot form {config.groups} groups of one size; choose a divisor.")
    return Groups([Atari(rom, n, config, hide_score=hide_score, n_before=start) for start in range(0, n_envs, n)])
