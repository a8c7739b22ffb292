"""Settings of a World Model. Free of torch."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from megareward.errors import UsageError


@dataclass(frozen=True)
class WorldConfig:
    """V (a variational autoencoder of the newest frame) and M (an LSTM that predicts the next code); random play
    trains both."""

    z: int = 32
    """Size of V's code of a frame (source: 32 and 64)."""
    mixtures: int = 5
    """Normal distributions in M's mixture for each number of the next code (source)."""
    changed_weight: float = 20.0
    """Extra weight in V's loss of pixels that differ from what they usually show (ours; source: none, and a ball of two
    pixels vanishes)."""
    kl_tolerance: float = 0.5
    """Nats of information per number of V's code that cost nothing (source)."""
    learning_rate: float = 1e-3
    """Of V's and M's Adam (source: M's; V's is 1e-4 there, for far more steps)."""
    batch: int = 256
    """Frames of a gradient step of V (source: 100)."""
    v_passes: int = 2
    """Passes of V over each rollout (source: 10 over all)."""
    m_passes: int = 4
    """Passes of M over each rollout, of 4 gradient steps each (source: 4000 steps in all)."""

    always_learns: ClassVar[bool] = True
    """Whether V and M learn as long as the run lasts; otherwise they are frozen when its random play is over."""

    def __post_init__(self) -> None:
        for name in ("z", "mixtures", "batch", "v_passes", "m_passes"):
            if getattr(self, name) < 1:
                option = name.replace("_", "-")
                raise UsageError(f"--reward.{option} is {getattr(self, name)}; use at least 1.")
        if not 0 < self.learning_rate <= 1:
            raise UsageError(f"--reward.learning-rate is {self.learning_rate}; use a rate in (0, 1], such as 1e-3.")
        for name in ("changed_weight", "kl_tolerance"):
            if not 0 <= getattr(self, name) < float("inf"):
                option = name.replace("_", "-")
                raise UsageError(f"--reward.{option} is {getattr(self, name)}; use 0 or more.")


@dataclass(frozen=True)
class WorldModelConfig(WorldConfig):
    """PPO on the game's score by a policy that sees V's and M's numbers, both frozen after random play."""

    clip: Literal["sign", "none"] = "sign"
    """sign: every reward becomes -1, 0 or 1. none: the raw score."""
    discount: float = 0.99
    """Per agent step."""

    always_learns: ClassVar[bool] = False
