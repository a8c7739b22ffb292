"""Mega-reward: the growth of accumulated control (Eq. 11), as the tracker saw it while the agent played."""

import torch

from megareward.rewards.interface import Recorded, RewardTerm, Stateless, World
from megareward.rewards.settings import MegaConfig
from megareward.types import Float, Tensor


class Mega(Stateless):
    """Reads what was recorded: the models that made it have learnt on since, but the agent acted on these maps."""

    def __init__(self, end_takes_all: bool) -> None:
        self.end_takes_all = end_takes_all

    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]:
        assert recorded.control is not None, "mega-reward needs the control tracker"
        growth, g = recorded.control.growth, recorded.control.g
        if not self.end_takes_all:
            return growth
        return torch.where(recorded.terminated[1:], -g[:-1].sum(-1), growth)


def build(config: MegaConfig, world: World) -> list[RewardTerm]:
    return [RewardTerm(config.stream("mega"), Mega(config.end_takes_all))]
