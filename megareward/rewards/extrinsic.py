"""Ex-PPO: the game's score is the reward. The benchmark that intrinsic rewards are measured against."""

from megareward.reward_stream import RewardStream
from megareward.rewards.interface import RewardTerm, Stateless
from megareward.rewards.settings import ExtrinsicConfig
from megareward.rollout import Recorded
from megareward.types import Float, Tensor
from megareward.world import World


class Extrinsic(Stateless):
    def __init__(self, config: ExtrinsicConfig) -> None:
        self.config = config

    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]:
        assert recorded.r_ext is not None, "the extrinsic reward was not recorded"
        return recorded.r_ext.sign() if self.config.clip == "sign" else recorded.r_ext


def build(config: ExtrinsicConfig, world: World) -> list[RewardTerm]:
    return [RewardTerm(RewardStream("extrinsic", config.discount, world.episodic), Extrinsic(config))]
