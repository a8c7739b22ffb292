"""A game's name and its settings in, a batch of environments out."""

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
    """`device` is where the training happens; a game that cannot run there has a device of its own (ALE: the CPU).

    `hide_score`: paint out the score, where the game draws one. `in_groups`: the caller knows groups (`envs.groups`),
    if the config asks for them.
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
