"""Settings of noise on the screen. Apart from `noise.py`, so that the command line needs no torch."""

from dataclasses import dataclass
from typing import Literal

from megareward.errors import UsageError


@dataclass(frozen=True)
class NoiseConfig:
    """Noise on what the agent sees, after the score is painted out; the game itself is the same."""

    std: float = 0.0
    """Standard deviation of normal noise, new on every pixel of every frame, as a share of the range of grey levels:
    0.3 is 76.5 of 255 levels; sums are clipped to the range (paper: 0 to 0.6; it does not say how it clips)."""
    tv: Literal["none", "always", "action"] = "none"
    """A screen of random grey levels in the top left corner. always: new ones in every frame. action: only while the
    agent takes an extra action, which does nothing in the game (after Burda et al. 2018a); otherwise it is black."""
    tv_side: float = 0.25
    """Sides of that screen, as a share of the frame's: 0.25 is one cell of a 4 x 4 grid (ours)."""

    def __post_init__(self) -> None:
        if not 0 <= self.std <= 10:
            raise UsageError(f"--noise.std is {self.std}; use a share of the range of grey levels, such as 0.3.")
        if not 0 < self.tv_side <= 1:
            raise UsageError(f"--noise.tv-side is {self.tv_side}; use a share of the frame in (0, 1], such as 0.25.")

    @property
    def on(self) -> bool:
        return self.std > 0 or self.tv != "none"
