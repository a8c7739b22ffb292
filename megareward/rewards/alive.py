"""Survival only: -1 at every end of an episode and nothing else. The control in every table.

Any reward that continues while the agent lives teaches it to stay alive, and in many games that alone scores. Where
ends do not count (`--no-episodic`) this reward is always 0.
"""

from megareward.rewards.interface import RewardTerm, Stateless
from megareward.rewards.settings import AliveConfig
from megareward.rollout import Recorded
from megareward.types import Float, Tensor
from megareward.world import World


class Alive(Stateless):
    def __init__(self, ends_count: bool) -> None:
        self.ends_count = ends_count

    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]:
        return -(recorded.terminated[1:] & self.ends_count).float()


def build(config: AliveConfig, world: World) -> list[RewardTerm]:
    stream = config.stream("alive", world.episodic)
    return [RewardTerm(stream, Alive(stream.episodic))]
