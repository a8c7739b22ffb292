"""Mini games: small worlds in torch whose answers are known. Rows and options here; `games.make_mini` builds one.

Nothing in this file imports torch, so that the command line can list the games and their options at once.
"""

from megareward.envs.mini.config import (
    MINI_CONFIGS,
    MINI_GAMES,
    TUNING_GAMES,
    BreakoutConfig,
    CrateConfig,
    DemonConfig,
    MiniConfig,
    PongConfig,
    RoadConfig,
    mini_config,
)

__all__ = [
    "MINI_CONFIGS",
    "MINI_GAMES",
    "TUNING_GAMES",
    "BreakoutConfig",
    "CrateConfig",
    "DemonConfig",
    "MiniConfig",
    "PongConfig",
    "RoadConfig",
    "mini_config",
]
