"""The same recorded frames in every world: our own loop, Gymnasium's three autoreset modes, and samples.

A tape holds, for each environment, episodes of random frames with an action and a reward for each transition. What is
played from it depends on nobody's decisions, so what every world makes of it can be compared. Every axis has its own
size: N = 3, A = 7, 4 x 6 cells on 32 x 36 pixels.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from megareward.control.config import AdmConfig, ControlConfig, LatentConfig, RtmConfig
from megareward.envs.interface import Step
from megareward.ppo.config import PPOConfig
from megareward.rewards import METHODS
from megareward.rollout import Decision
from megareward.training.config import TrainConfig
from megareward.training.loop import Trainer

N, A, H, W, SHAPE = 3, 7, 4, 6, (32, 36)
SPACE, ACTIONS = Box(0, 255, SHAPE, np.uint8), Discrete(A)
REWARDING = [
    name
    for name, method in METHODS.items()
    if method.trains_policy and not (method.skill or method.has_auxiliary_loss) and set(method.observers) <= {"control"}
]
"""Those whose reward can be had outside our own training."""
SEED = 5

CONTROL = ControlConfig(
    H=H,
    W=W,
    adm=AdmConfig(channels=2, features=8, hidden=8),
    rtm=RtmConfig(channels=2, features=8, gamma_features=8),
    latent=LatentConfig(flash=1.0),  # a tape is noise, so every step would be one
    batch=16,
    normalise_frames=30,
    background_frames=30,
)
NO_ANCHOR = replace(CONTROL, rtm=replace(CONTROL.rtm, anchor=0.0))
"""The anchor draws random numbers at every step of all environments together, so a reset that takes a step of its own
shifts them. Without it, a reward depends on its own environment's episode alone."""
SMALL: dict[str, dict[str, Any]] = {
    "rnd": {"epochs": 1, "minibatches": 2},
    "curiosity": {"epochs": 1, "minibatches": 2, "normalise_frames": 20},
    "emp": {"steps": 2, "minibatches": 2, "normalise_frames": 20},
}


@dataclass
class Episode:
    frames: np.ndarray
    """(length + 1, px_h, px_w)"""
    actions: np.ndarray
    rewards: np.ndarray
    cut: bool
    """By a time limit, not by the game."""


def tape(seed: int = 0, shortest: int = 1, longest: int = 9, transitions: int = 60) -> list[list[Episode]]:
    """Episodes of every environment, of at least so many transitions altogether."""
    random = np.random.default_rng(seed)

    def episode() -> Episode:
        length = int(random.integers(shortest, longest + 1))
        return Episode(
            random.integers(0, 256, (length + 1, *SHAPE), dtype=np.uint8),
            random.integers(0, A, length),
            random.normal(size=length).round(3),
            bool(random.integers(2)),
        )

    reels = []
    for _ in range(N):
        reel: list[Episode] = []
        while sum(len(e.actions) for e in reel) < transitions:
            reel.append(episode())
        reels.append(reel)
    return reels


class Projector:
    """Where each environment is on its reel."""

    def __init__(self, reels: list[list[Episode]]) -> None:
        self.reels = reels
        self.rewind()

    def rewind(self) -> None:
        self.place = [(0, 0) for _ in self.reels]

    def episode(self, n: int) -> Episode:
        return self.reels[n][self.place[n][0]]

    def frame(self, n: int) -> np.ndarray:
        return self.episode(n).frames[self.place[n][1]]

    def frames(self) -> np.ndarray:
        return np.stack([self.frame(n) for n in range(len(self.reels))])

    def action(self, n: int) -> int:
        """What is to be done next; anything where a reset comes next."""
        return int(self.episode(n).actions[self.place[n][1]]) if not self.at_end(n) else 0

    def actions(self) -> np.ndarray:
        return np.array([self.action(n) for n in range(len(self.reels))])

    def at_end(self, n: int) -> bool:
        return self.place[n][1] == len(self.episode(n).actions)

    def open_next(self, n: int) -> None:
        self.place[n] = (self.place[n][0] + 1, 0)

    def advance(self, n: int) -> tuple[float, bool, bool]:
        """One transition: reward, terminated, truncated."""
        number, t = self.place[n]
        self.place[n] = (number, t + 1)
        ended, cut = self.at_end(n), self.reels[n][number].cut
        return float(self.reels[n][number].rewards[t]), ended and not cut, ended and cut


class TapeVector(VectorEnv):
    """A tape as a Gymnasium vector environment of any autoreset mode. It insists on the actions of the tape."""

    def __init__(self, reels: list[list[Episode]], mode: AutoresetMode, shape: tuple[int, ...] = SHAPE) -> None:
        self.metadata = {"autoreset_mode": mode}
        self.mode, self.projector, self.num_envs = mode, Projector(reels), len(reels)
        self.single_observation_space, self.single_action_space = Box(0, 255, shape, np.uint8), ACTIONS
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(ACTIONS, self.num_envs)

    def show(self, frames: np.ndarray) -> np.ndarray:
        return frames.reshape(-1, *self.single_observation_space.shape)

    def reset(self, *, seed=None, options=None):
        if options and "reset_mask" in options:
            for n in np.flatnonzero(options["reset_mask"]):
                self.projector.open_next(n)
        else:
            self.projector.rewind()
        return self.show(self.projector.frames()), {}

    def step(self, actions):
        p, infos = self.projector, {}
        rewards = np.zeros(self.num_envs)
        flags = np.zeros((2, self.num_envs), bool)
        for n in range(self.num_envs):
            if p.at_end(n):
                assert self.mode is AutoresetMode.NEXT_STEP, "a step after an end"
                p.open_next(n)
            else:
                assert actions[n] == p.action(n), "not the action of the tape"
                rewards[n], *flags[:, n] = p.advance(n)
                if flags[:, n].any() and self.mode is AutoresetMode.SAME_STEP:
                    infos = self._add_info(infos, {"final_obs": self.show(p.frame(n))[0]}, n)
                    p.open_next(n)
        return self.show(p.frames()), rewards, flags[0], flags[1], infos


class TapeBatch:
    """A tape as a `BatchedEnv`, for our own loop."""

    n_envs, n_groups, n_actions, frame_shape, frame_skip = N, 1, A, SHAPE, 1
    device = torch.device("cpu")
    action_names = tuple(str(a) for a in range(A))

    def __init__(self, reels: list[list[Episode]]) -> None:
        self.vector = TapeVector(reels, AutoresetMode.NEXT_STEP)

    def reset(self, seed: int) -> Step:
        self.vector.reset()
        return self._step(np.zeros(N), np.zeros(N, bool), np.zeros(N, bool), np.ones(N, bool))

    def send(self, actions: torch.Tensor) -> None:
        first = np.array([self.vector.projector.at_end(n) for n in range(N)])
        _, rewards, terminated, truncated, _ = self.vector.step(actions.numpy())
        self.answer = self._step(rewards, terminated, truncated, first)

    def recv(self) -> Step:
        return self.answer

    def _step(self, rewards, terminated, truncated, first) -> Step:
        flags = [torch.from_numpy(x) for x in (terminated, truncated, first, terminated | truncated)]
        frames = torch.from_numpy(self.vector.projector.frames())
        return Step(frames, torch.from_numpy(rewards).float(), *flags)

    def state_dict(self) -> None:
        return None

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


class OwnLoop:
    """Our own loop on a tape: its agent does what the tape does, for reasons that are random."""

    def __init__(self, trainer: Trainer, batch: TapeBatch) -> None:
        self.trainer, self.rollout = trainer, trainer.rollout
        self.observers, self.rewards = trainer.observers, trainer.rewards
        self.paid: torch.Tensor | None = None
        """(T, N): the rewards of the last rollout, of the one stream there is, as they became advantages."""
        random, samples = torch.Generator().manual_seed(0), trainer.agent.samples

        def decide(index: torch.Tensor, exponentials: torch.Tensor, policy_on: torch.Tensor) -> Decision:
            actions = torch.from_numpy(batch.vector.projector.actions())
            log_policy = torch.randn(N, A, generator=random).log_softmax(-1)
            return Decision(actions, torch.zeros(N), torch.zeros_like(self.rollout.values[0]), log_policy)

        def noted(rewards: list[torch.Tensor]) -> Any:
            [self.paid] = rewards
            return samples(rewards)

        trainer.agent.decide, trainer.agent.samples = decide, noted
        trainer.begin()

    def iterate(self) -> torch.Tensor:
        """One rollout, and everything that is learnt from it. Returns what it paid."""
        self.trainer.iterate()
        return self.paid


def own_loop(method: str, T: int, control: ControlConfig, reels: list[list[Episode]], **settings: Any) -> OwnLoop:
    """With the rewards of `make` as `settings_for` has them."""
    config = TrainConfig(
        method=method,
        seed=SEED,
        device="cpu",
        n_envs=N,
        rollout_steps=T,
        warmup_steps=0,
        g_channel="auto",
        ppo=PPOConfig(minibatches=1, epochs=1),
        control=control,
        reward=METHODS[method].config(**{**SMALL.get(method, {}), **settings}),
    )
    batch = TapeBatch(reels)
    return OwnLoop(Trainer(config, torch.device("cpu"), env=batch), batch)


def settings_for(method: str, control: ControlConfig = CONTROL, **settings: Any) -> dict[str, Any]:
    """Arguments of `make` that give what `own_loop` has: control is tracked for every method but the score's."""
    tracks = not METHODS[method].uses_score
    return {
        "seed": SEED,
        "preset": "default",
        "control": control,
        "tracks_control": tracks,
        **SMALL.get(method, {}),
        **settings,
    }


def by_transition(rewards: np.ndarray, real: np.ndarray) -> list[list[float]]:
    """(T, N) rewards -> for each environment those of its transitions, one after the other."""
    return [rewards[real[:, n], n].tolist() for n in range(rewards.shape[1])]
