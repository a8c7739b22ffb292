"""A game's name and its settings in, a batch of environments out."""

import torch

from megareward.envs.atari_config import AtariConfig
from megareward.envs.games import resolve_game
from megareward.envs.interface import BatchedEnv
from megareward.envs.mini import MiniConfig
from megareward.errors import UsageError


def make_env(
    game: str,
    n_envs: int,
    config: AtariConfig | MiniConfig,
    *,
    hide_score: bool,
    device: torch.device,
    in_groups: bool = False,
) -> BatchedEnv:
    """Mini games live on the training device; ALE runs on the CPU. Mini games draw no score, so none needs hiding.

    `in_groups`: the caller knows groups (`envs.groups`), if the config asks for them.
    """
    game = resolve_game(game)
    if isinstance(config, MiniConfig):
        from megareward.envs.mini.games import make_mini

        return make_mini(game, n_envs, config, device)
    from megareward.envs.atari import Atari

    if not in_groups or config.groups == 1:
        return Atari(game, n_envs, config, hide_score=hide_score)
    from megareward.envs.groups import Groups

    n = n_envs // config.groups
    if n * config.groups != n_envs:
        raise UsageError(f"{n_envs} environments cannot form {config.groups} groups of one size; choose a divisor.")
    return Groups([Atari(game, n, config, hide_score=hide_score, n_before=start) for start in range(0, n_envs, n)])
