"""Runs of a second that still meet everything: ends of games, time limits, minibatches, several iterations.

A method that joins the zoo joins the tests of this folder. If its defaults are too large for them, it gets a line in
`SMALL`.
"""

import atexit
import functools
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from megareward.control.config import AdmConfig, ControlConfig, RtmConfig
from megareward.envs.interface import BatchedEnv, Step
from megareward.envs.mini import PongConfig
from megareward.ppo.config import PPOConfig
from megareward.rewards import METHODS, find_method
from megareward.rewards.settings import MotionConfig
from megareward.runs.checkpoint import load_newest
from megareward.runs.folder import RunFolder
from megareward.training.config import TrainConfig
from megareward.training.parts import make_game
from megareward.training.run import resume, start
from megareward.types import Int, Tensor
from tests.seams import frame_change

EVERY = [*METHODS, frame_change.METHOD.name]
SCORE_FREE = [name for name in METHODS if not METHODS[name].uses_score] + [frame_change.METHOD.name]

ITERATIONS, N, T = 4, 3, 12

TINY_MOTION = MotionConfig(n_masks=3, channels=2)
SMALL: dict[str, dict[str, Any]] = {
    "rnd": {"epochs": 1, "minibatches": 2},
    "m-rnd": {"epochs": 1, "minibatches": 2, "motion": TINY_MOTION, "motion_steps": 2 * N * T, "motion_batch": N * T},
    "morel": {"motion": TINY_MOTION},
    "oomdp": {"n_slots": 4, "background_frames": N * T},
    "sto": {"hold": 5, "epochs": 1, "minibatches": 2},
    "sto-manager": {"hold": 4},
    "div": {"holds": (2, 3), "epochs": 1},
    "curiosity": {"epochs": 1, "minibatches": 2, "normalise_frames": N * T},
    "emp": {"minibatches": 2, "normalise_frames": N * T},
    "world": {"z": 4, "mixtures": 2, "batch": 18, "v_passes": 1},
    "world-model": {"z": 4, "mixtures": 2, "batch": 18, "v_passes": 1},
}
"""Settings that make a method cheap enough, by its name."""

TINY_CONTROL = ControlConfig(
    adm=AdmConfig(channels=2, features=8, hidden=8),
    rtm=RtmConfig(channels=2, features=8, gamma_features=8),
    batch=N * T,
    normalise_frames=N * T,
    background_frames=N * T,
)
QUIET: dict[str, Any] = {"quiet": True, "tensorboard": False}


def small(method: str, **changes: Any) -> TrainConfig:
    """Four iterations of mini-pong to one point, which may come after 15 steps, cut after 17: ends of both kinds.

    Methods that warm up do so in the first of them.
    """
    settings: dict[str, Any] = {
        "game": "mini-pong",
        "frames": ITERATIONS * N * T,
        "seed": 5,
        "device": "cpu",
        "checkpoint_minutes": 0.0,
        "n_envs": N,
        "rollout_steps": T,
        "warmup_steps": N * T,
        "ppo": PPOConfig(minibatches=2, epochs=2, learning_rate=1e-2),
        "g_channel": "auto",
        "control": TINY_CONTROL,
        "env": PongConfig(points=1, max_steps=17),
        "reward": find_method(method).config(**SMALL.get(method, {})),
    }
    if source := find_method(method).starts_from:
        settings |= {"start_from": str(finished(source)), "g_channel": "no"}
    return TrainConfig(method=method, **{**settings, **changes})


@functools.cache
def finished(method: str) -> Path:
    """The folder of a small run that others start from."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return start(small(method, g_channel="no"), Path(folder.name) / method, **QUIET).path


class Watched:
    """Another environment, with a note of every action it was sent and of the rewards it gave."""

    def __init__(self, env: BatchedEnv, before_step: Callable[[int], None] = lambda number: None) -> None:
        self.env, self.before_step = env, before_step
        self.actions: list[list[int]] = []
        self.score = 0.0
        """Sum of the absolute rewards."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def send(self, actions: Int[Tensor, "N"]) -> None:
        self.before_step(len(self.actions))
        self.actions.append(actions.tolist())
        self.env.send(actions)

    def recv(self) -> Step:
        step = self.env.recv()
        self.score += float(step.rewards.abs().sum())
        return step


def env_of(config: TrainConfig) -> BatchedEnv:
    return make_game(config, config.n_envs, torch.device("cpu"))


@dataclass
class Outcome:
    """All that a run leaves behind, except how long it took."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]
    metrics: list[dict[str, float]]
    scores: list[dict[str, Any]]

    @classmethod
    def of(cls, path: Path) -> "Outcome":
        folder = RunFolder.open(path)
        found = load_newest(folder.checkpoints, _unexpected)
        assert found is not None
        _, tensors, state = found
        del state["config"], state["log_sizes"]  # seconds are written with as many digits as they have
        rows = folder.rows("metrics.jsonl")
        metrics = [{k: v for k, v in row.items() if not k.startswith(("seconds/", "memory/"))} for row in rows]
        return cls(tensors, state, metrics, folder.rows("scores.jsonl"))

    @property
    def weights(self) -> dict[str, Tensor]:
        """All that was learnt: policy, optimiser, rewards, control models; also the random states."""
        return {name: tensor for name, tensor in self.tensors.items() if not name.startswith(("env.", "rollout."))}


def assert_same_tensors(one: dict[str, Tensor], two: dict[str, Tensor]) -> None:
    assert one.keys() == two.keys()
    different = [name for name in one if not torch.equal(one[name], two[name])]
    assert different == []


def assert_same(one: Outcome, two: Outcome) -> None:
    """Bit for bit."""
    assert_same_tensors(one.tensors, two.tensors)
    assert one.state == two.state
    assert one.metrics == two.metrics
    assert one.scores == two.scores


def run(
    config: TrainConfig, path: Path, wrap: Callable[[BatchedEnv], BatchedEnv] | None = None
) -> tuple[Outcome, Watched]:
    """Train in a new folder; the environment may be wrapped in another."""
    env = env_of(config)
    watched = Watched(wrap(env) if wrap else env)
    start(config, path, env=watched, **QUIET)
    return Outcome.of(path), watched


@functools.cache
def whole(config: TrainConfig) -> tuple[Outcome, Watched]:
    """The uninterrupted, unwrapped run that others are compared with; trained once, to be read only."""
    with tempfile.TemporaryDirectory() as folder:
        return run(config, Path(folder) / "run")


class PowerCutError(Exception):
    """The process is gone: nothing more is saved."""


def stop_at(step: int, how: str) -> Callable[[int], None]:
    """Ctrl-C or a power cut before the step of that number."""

    def before_step(number: int) -> None:
        if number == step:
            if how == "power cut":
                raise PowerCutError
            signal.raise_signal(signal.SIGINT)

    return before_step


def run_with_a_stop(config: TrainConfig, path: Path, step: int, how: str) -> Outcome:
    env = Watched(env_of(config), stop_at(step, how))
    try:
        start(config, path, env=env, **QUIET)
    except (KeyboardInterrupt, PowerCutError):
        stopped = True
    else:
        stopped = False
    assert stopped, "the stop was never reached"
    resume(path, **QUIET)
    return Outcome.of(path)


def _unexpected(text: str) -> None:
    raise AssertionError(f"an unexpected warning: {text}")
