"""Settings of each method. Free of torch, so that `megareward train METHOD --help` answers at once."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class NoSettings:
    """A method with nothing to set."""


@dataclass(frozen=True)
class ExtrinsicConfig:
    """PPO on the game's own score."""

    clip: Literal["sign", "none"] = "sign"
    """sign: every reward becomes -1, 0 or 1 (Mnih 2015; R15). none: the raw score."""
    discount: float = 0.99
    """Per agent step."""
