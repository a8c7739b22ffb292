"""Which runs are seeds of one experiment."""

import json
from typing import Any

from megareward.training.config import bearing


def without_seed(config: dict[str, Any]) -> dict[str, Any]:
    """The settings that affect what is learnt (`bearing`), without the seed."""
    return {name: value for name, value in bearing(config).items() if name != "seed"}


def settings_key(config: dict[str, Any]) -> str:
    """Equal for two runs if and only if they differ only in the seed and in settings that do not affect learning."""
    return json.dumps(without_seed(config), sort_keys=True)
