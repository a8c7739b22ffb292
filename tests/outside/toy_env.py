"""A game from outside the package: action 1 makes the frame brighter, and it ends when it is white."""

from dataclasses import dataclass

import torch

from megareward.envs.config import EnvConfig, Game
from megareward.envs.interface import Step
from megareward.types import Int, Tensor


@dataclass(frozen=True)
class DimmerConfig(EnvConfig):
    step: int = 40


class Dimmer:
    n_actions, action_names, frame_shape = 2, ("stay", "brighter"), (12, 14)
    frame_skip, n_groups = 1, 1

    def __init__(self, n_envs: int, config: DimmerConfig, device: torch.device) -> None:
        self.n_envs, self.config, self.device = n_envs, config, device
        self.level = torch.zeros(n_envs, dtype=torch.int64, device=device)
        self.over = torch.zeros(n_envs, dtype=torch.bool, device=device)

    def reset(self, seed: int) -> Step:
        self.level, self.over = torch.zeros_like(self.level), torch.ones_like(self.over)
        return self.shown(torch.zeros_like(self.level))

    def send(self, actions: Int[Tensor, "N"]) -> None:
        self.actions = actions

    def recv(self) -> Step:
        return self.shown(self.actions)

    def shown(self, actions: Int[Tensor, "N"]) -> Step:
        first = self.over
        self.level = torch.where(first, 0, self.level + actions * self.config.step)
        self.over = self.level > 255
        frames = self.level.clamp(max=255).to(torch.uint8)[:, None, None].expand(-1, *self.frame_shape)
        return Step(frames, self.over.float(), self.over, torch.zeros_like(first), first, self.over)

    def state_dict(self) -> dict[str, Tensor]:
        return {"level": self.level.clone(), "over": self.over.clone()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.level, self.over = state["level"].clone(), state["over"].clone()

    def close(self) -> None:
        pass


def make(
    name: str, n_envs: int, config: DimmerConfig, *, hide_score: bool, device: torch.device, in_groups: bool
) -> Dimmer:
    return Dimmer(n_envs, config, device)


ROW = Game("dimmer", "Dimmer", DimmerConfig, f"{__name__}:make", actions=2, score="not shown")
