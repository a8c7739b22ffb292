"""Overhead of the Gymnasium wrapper: random actions without it, with frozen and with learning models."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from gymnasium.vector import VectorEnv

from megareward.envs.games import find_game
from megareward.envs.gymnasium_adapter import GymnasiumVector
from megareward.envs.make import make_env
from megareward.integration.gymnasium_wrapper import UPDATE_EVERY, IntrinsicRewardWrapper
from megareward.rewards import find_method
from megareward.runs.provenance import provenance


@dataclass(frozen=True)
class WrapperCost:
    """The cost of one method's wrapper around one game."""

    game: str
    method: str
    """`bare` is the game without a wrapper."""
    n_envs: int
    device: str
    learns: bool
    """Whether the models were updated every 128 steps, or were frozen."""
    steps_per_s: float
    """Agent decisions of all environments together."""
    added_us: float
    """Microseconds that the wrapper adds to a decision of one environment."""
    provenance: dict[str, Any]

    def __str__(self) -> str:
        what = self.method + ("" if self.method == "bare" else ", learning" if self.learns else ", frozen")
        return (
            f"{self.game:16} {self.n_envs:5} environments  {what:20} {self.steps_per_s:12,.0f} steps/s"
            f"  {self.added_us:+10,.1f} us per step"
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure_wrapper(
    game: str, methods: Sequence[str], n_envs: int, seconds: float, device: torch.device
) -> Iterator[WrapperCost]:
    """The bare game first, then each method with frozen and with learning models."""
    game = find_game(game).name
    names = [find_method(method).name for method in methods]
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    bare: float | None = None
    for method, learns in [("bare", False), *((name, learns) for name in names for learns in (False, True))]:
        settings = find_game(game).config()
        envs: VectorEnv[Any, Any, Any] = GymnasiumVector(
            make_env(game, n_envs, settings, hide_score=True, device=device)
        )
        if method != "bare":
            every = UPDATE_EVERY if learns else None
            envs = IntrinsicRewardWrapper(envs, method, update_every=every, device=device)
        try:
            speed = steps_per_second(envs, seconds)
        finally:
            envs.close()
        bare = bare or speed
        added = 1e6 * (1 / speed - 1 / bare)
        yield WrapperCost(game, method, n_envs, where, learns, speed, added, provenance(device))


def steps_per_second(envs: VectorEnv[Any, Any, Any], seconds: float) -> float:
    envs.reset(seed=0)
    envs.action_space.seed(0)
    for _ in range(10):  # memory is allocated, episodes drift apart
        envs.step(envs.action_space.sample())
    steps, begun = 0, time.perf_counter()
    while steps % UPDATE_EVERY or time.perf_counter() - begun < seconds:  # whole rollouts, so that learning counts
        envs.step(envs.action_space.sample())
        steps += 1
    return steps * envs.num_envs / (time.perf_counter() - begun)
