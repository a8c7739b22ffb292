"""Which runs are seeds of one experiment."""

import json
from typing import Any

from megareward.training.config import bearing


def without_seed(config: dict[str, Any]) -> dict[str, Any]:
    """The settings that bear on what is learnt (`bearing`), but for the seed."""
    return {name: value for name, value in bearing(config).items() if name != "seed"}


def settings_key(config: dict[str, Any]) -> str:
    """Equal for two runs if and only if they differ in nothing but the seed and settings without a bearing."""
    return json.dumps(without_seed(config), sort_keys=True)
