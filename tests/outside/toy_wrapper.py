"""A wrapper from outside the package: mini-pong with a clock in the corner, as a game of its own."""

import dataclasses

import torch

from megareward.envs.config import Game
from megareward.envs.interface import BatchedEnv, Step
from megareward.envs.make import make_env
from megareward.envs.mini import PongConfig
from megareward.envs.wrapper import EnvWrapper
from megareward.types import Tensor


class ClockInTheCorner(EnvWrapper):
    def __init__(self, env: BatchedEnv) -> None:
        super().__init__(env)
        self.time = torch.zeros((), dtype=torch.int64)

    def reset(self, seed: int) -> Step:
        self.time = torch.zeros((), dtype=torch.int64)
        return super().reset(seed)

    def change(self, step: Step, rows: slice) -> Step:
        frames = step.frames.clone()
        frames[:, :2, :2] = (self.time % 256).to(torch.uint8)
        self.time = self.time + 1
        return dataclasses.replace(step, frames=frames)

    def own_state(self) -> dict[str, Tensor]:
        return {"time": self.time}

    def load_own_state(self, state: dict[str, Tensor]) -> None:
        self.time = state["time"]


def make(
    name: str, n_envs: int, config: PongConfig, *, hide_score: bool, device: torch.device, in_groups: bool
) -> ClockInTheCorner:
    return ClockInTheCorner(make_env("mini-pong", n_envs, config, hide_score=hide_score, device=device))


ROW = Game("pong-with-clock", "PongWithClock", PongConfig, f"{__name__}:make", score="not shown")
