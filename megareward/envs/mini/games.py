"""Building a mini game by its name."""

import torch

from megareward.envs.make import make_env
from megareward.envs.mini.base import MiniGame
from megareward.envs.mini.config import MiniConfig, mini_config


def make_mini(name: str, n_envs: int, config: MiniConfig | None = None, device: torch.device | str = "cpu") -> MiniGame:
    """N copies of a mini game; without a config, with the game's default options."""
    config = mini_config(name) if config is None else config
    env = make_env(name, n_envs, config, hide_score=False, device=torch.device(device))
    assert isinstance(env, MiniGame)
    return env
