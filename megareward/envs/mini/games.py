"""The table of mini games, and how to build one."""

import torch

from megareward.envs.mini.base import MiniGame
from megareward.envs.mini.breakout import MiniBreakout
from megareward.envs.mini.config import MiniConfig, mini_config
from megareward.envs.mini.demon import MiniDemon
from megareward.envs.mini.pong import MiniPong
from megareward.errors import UsageError

MINI_CLASSES: dict[str, type[MiniGame]] = {
    "mini-pong": MiniPong,
    "mini-breakout": MiniBreakout,
    "mini-demon": MiniDemon,
}


def make_mini(name: str, n_envs: int, config: MiniConfig | None = None, device: torch.device | str = "cpu") -> MiniGame:
    """N copies of a mini game; without a config, with the game's default options."""
    default = mini_config(name)
    config = default if config is None else config
    if type(config) is not type(default):
        raise UsageError(
            f"{name} takes a {type(default).__name__}, not a {type(config).__name__}; build it with mini_config."
        )
    return MINI_CLASSES[name](n_envs, config, torch.device(device))
