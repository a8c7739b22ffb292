"""A game's name and its settings in, a batch of environments out."""

import torch

from megareward.envs.atari_config import AtariConfig
from megareward.envs.games import resolve_game
from megareward.envs.interface import BatchedEnv
from megareward.envs.mini import MiniConfig


def make_env(
    game: str, n_envs: int, config: AtariConfig | MiniConfig, *, hide_score: bool, device: torch.device
) -> BatchedEnv:
    """Mini games live on the training device; ALE runs on the CPU. Mini games draw no score, so none needs hiding."""
    game = resolve_game(game)
    if isinstance(config, MiniConfig):
        from megareward.envs.mini.games import make_mini

        return make_mini(game, n_envs, config, device)
    from megareward.envs.atari import Atari

    return Atari(game, n_envs, config, hide_score=hide_score)
