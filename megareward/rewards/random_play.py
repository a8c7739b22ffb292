"""Uniformly random play: no reward, no learning. The floor that every method is measured from."""

from megareward.rewards.interface import RewardTerm, World
from megareward.rewards.settings import NoSettings


def build(config: NoSettings, world: World) -> list[RewardTerm]:
    return []
