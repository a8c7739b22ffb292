"""Makes a batch of environments from a game's name and settings."""

import pkgutil

import torch

from megareward.envs.config import EnvConfig
from megareward.envs.games import find_game
from megareward.envs.interface import BatchedEnv
from megareward.errors import UsageError


def make_env(
    game: str,
    n_envs: int,
    config: EnvConfig,
    *,
    hide_score: bool,
    device: torch.device,
    in_groups: bool = False,
) -> BatchedEnv:
    """A batch of environments. `device`: that of the training; games that cannot run there have their own (ALE: CPU).

    `hide_score`: paint out the score, if the game draws one. `in_groups`: the caller can handle groups (`envs.groups`),
    which are made if the config asks for them.
    """
    row = find_game(game)
    if not isinstance(config, row.config):
        raise UsageError(
            f"The settings of {row.name} are of class {row.config.__name__}, not {type(config).__name__}; "
            f"find_game({row.name!r}).config() gives the defaults."
        )
    make = pkgutil.resolve_name(row.make)
    env: BatchedEnv = make(row.name, n_envs, config, hide_score=hide_score, device=device, in_groups=in_groups)
    return env
