"""Ex-PPO: the game's score is the reward. The benchmark that intrinsic rewards are measured against.

With `--with-score` it is a second stream beside those of any other method.
"""

from collections.abc import Sequence
from dataclasses import replace

from megareward.reward_stream import RewardStream
from megareward.rewards.interface import RewardTerm, Stateless
from megareward.rewards.settings import ExtrinsicConfig, ScoreConfig
from megareward.rollout import Recorded
from megareward.types import Float, Tensor
from megareward.world import World
from megareward.world_model.config import WorldModelConfig


class Extrinsic(Stateless):
    def __init__(self, config: ExtrinsicConfig | ScoreConfig | WorldModelConfig) -> None:
        self.config = config

    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]:
        assert recorded.r_ext is not None, "the extrinsic reward was not recorded"
        return recorded.r_ext.sign() if self.config.clip == "sign" else recorded.r_ext


def build(config: ExtrinsicConfig | WorldModelConfig, world: World) -> list[RewardTerm]:
    return [RewardTerm(RewardStream("extrinsic", config.discount, world.episodic), Extrinsic(config))]


def beside_the_score(terms: Sequence[RewardTerm], score: ScoreConfig, world: World) -> list[RewardTerm]:
    """These rewards and the game's score, each with a discount, a value head and a weight of its own (Burda et al.
    2018b). Both follow the rule for death; the score is not scaled."""
    own = [
        RewardTerm(replace(stream, weight=score.intrinsic_weight * stream.weight), reward) for stream, reward in terms
    ]
    stream = RewardStream("extrinsic", score.discount, world.episodic, score.weight)
    return [*own, RewardTerm(stream, Extrinsic(score))]
