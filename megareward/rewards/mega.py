"""Mega-reward: the growth of accumulated control (Eq. 11), as it was recorded while the agent played.

The released code's own command pays a count bonus on g instead (`mega_count`).
"""

import torch

from megareward.rewards.interface import RewardTerm, Stateless
from megareward.rewards.mega_count import CountedMaps
from megareward.rewards.settings import MegaConfig
from megareward.rollout import Fields, Recorded
from megareward.types import Float, Tensor
from megareward.world import World


def held(fields: Fields) -> Float[Tensor, "*steps"]:
    """All that is under control, counted as its growth is: over things where they carry it, else over cells."""
    return fields["held"] if "held" in fields else fields["g"].sum(-1)


class Mega(Stateless):
    """Reads what was recorded: the models that made it have learnt on since, but the agent acted on these maps."""

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
