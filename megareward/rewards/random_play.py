"""Uniformly random play: no reward, no learning. The floor that every method is measured from."""

from megareward.rewards.interface import RewardTerm
from megareward.rewards.settings import NoSettings
from megareward.world import World


def build(config: NoSettings, world: World) -> list[RewardTerm]:
    return []
