"""Mega-reward: the growth of accumulated control (Eq. 11), as the tracker saw it while the agent played."""

from megareward.ppo.config import Stream
from megareward.rewards.contract import Recorded, RewardStream, Stateless, World
from megareward.rewards.settings import MegaConfig
from megareward.types import Float, Tensor


class Mega(Stateless):
    """Reads what was recorded: the models that made it have learnt on since, but the agent acted on these maps."""

    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]:
        assert recorded.control is not None, "mega-reward needs the control tracker"
        return recorded.control.growth


def build(config: MegaConfig, world: World) -> list[RewardStream]:
    return [RewardStream(Stream("mega", config.discount, config.episodic), Mega(), config.normalise)]
