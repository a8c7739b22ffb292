"""A reward from outside the package: how bright the frame is that a transition leads to. One file and one row."""

from megareward.reward_stream import RewardStream
from megareward.rewards import Method
from megareward.rewards.interface import RewardTerm, Stateless
from megareward.rewards.settings import NoSettings
from megareward.rollout import Recorded
from megareward.types import Float, Tensor
from megareward.world import World


class Brightness(Stateless):
    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]:
        return recorded.frames[1:].float().mean((2, 3))


def build(config: NoSettings, world: World) -> list[RewardTerm]:
    return [RewardTerm(RewardStream("bright"), Brightness())]


ROW = Method("bright", "Bright frames.", NoSettings, __name__)
