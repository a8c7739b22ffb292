"""Uniformly random play: no reward, and no policy that learns. The floor that every method is measured from; observers
may learn from it."""

from megareward.rewards.interface import RewardTerm
from megareward.rewards.settings import NoSettings
from megareward.world import World
from megareward.world_model.config import WorldConfig


def build(config: NoSettings | WorldConfig, world: World) -> list[RewardTerm]:
    return []
