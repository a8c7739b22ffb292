"""The config of a run whose speed is measured."""

from dataclasses import replace
from typing import Literal

from megareward.training.config import TrainConfig
from megareward.training.presets import with_preset, without_fast_paths


def bench_config(
    method: str,
    game: str,
    preset: str = "many",
    *,
    n_envs: int | None = None,
    groups: int | None = None,
    threads: int = 0,
    overlap: Literal["auto", "on", "off"] = "auto",
    plain: bool = False,
) -> TrainConfig:
    """A preset with other numbers of environments, and on Atari of groups and emulator threads.

    None: the preset's. `threads` are per group, 0: one per core. `overlap`: whether control models learn while the next
    rollout is collected. `plain`: switch off all that only saves time.
    """
    config = with_preset(TrainConfig(method=method, game=game), preset)
    config = replace(config, control=replace(config.control, overlap=overlap))
    env = config.env.with_threads(threads)
    env = env if groups is None else env.with_groups(groups)
    config = replace(config, n_envs=config.n_envs if n_envs is None else n_envs, env=env)
    return without_fast_paths(config) if plain else config
