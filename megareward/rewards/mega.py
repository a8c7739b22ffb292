"""Mega-reward: the growth of accumulated control (Eq. 11), as it was recorded while the agent played.

The reward of the released code's own command is a count bonus on g instead (`mega_count`).
"""

import torch

from megareward.rewards.interface import RewardTerm, Stateless
from megareward.rewards.mega_count import CountedMaps
from megareward.rewards.settings import MegaConfig
from megareward.rollout import Fields, Recorded
from megareward.types import Float, Tensor
from megareward.world import World


def held(fields: Fields) -> Float[Tensor, "*steps"]:
    """Total control, as Eq. 11 sums it: g over things where they carry control, else over cells."""
    return fields["held"] if "held" in fields else fields["g"].sum(-1)


class Mega(Stateless):
    """Uses recorded maps: the models have been updated since, but the agent acted on these."""

    def __init__(self, end_takes_all: bool) -> None:
        self.end_takes_all = end_takes_all

    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]:
        """Eq. 11 of each transition; where the game ends, minus all of g that was under control."""
        growth = recorded.fields["mega_reward"][1:]
        if not self.end_takes_all:
            return growth
        return torch.where(recorded.terminated[1:], -held(recorded.fields)[:-1], growth)


def build(config: MegaConfig, world: World) -> list[RewardTerm]:
    stream = config.stream("mega", world.episodic)
    if config.bonus == "count":
        return [RewardTerm(stream, CountedMaps(world))]
    return [RewardTerm(stream, Mega(config.end_takes_all and stream.episodic))]
