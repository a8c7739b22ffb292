"""The zoo: every way to reward an agent. One line of the table per method; the command line and the tests follow it.

Free of torch: a method's own file is imported only when it is built.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from megareward.errors import UsageError, suggestion
from megareward.rewards.settings import (
    CountConfig,
    CuriosityConfig,
    DirConfig,
    ExtrinsicConfig,
    MegaConfig,
    NoSettings,
    RndConfig,
)

if TYPE_CHECKING:
    from megareward.rewards.interface import RewardTerm, World


@dataclass(frozen=True)
class Method:
    """How a method is listed, configured and built."""

    name: str
    summary: str
    config: type
    """Frozen dataclass of the method's own settings."""
    module: str
    """Where its `build(config, world)` lives."""
    uses_score: bool
    """Only such a method is ever handed the game's rewards, and only for such a method may the score stay visible."""
    trains_policy: bool = True
    """False: actions are uniformly random and no network learns."""
    needs_control: bool = False
    """True: the reward is made of the control map, so the tracker runs whether or not the policy sees g."""

    def build(self, config: Any, world: "World") -> "list[RewardTerm]":
        builder: Callable[[Any, World], list[RewardTerm]] = importlib.import_module(self.module).build
        return builder(config, world)


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "mega",
            "Mega-reward: growth of control.",
            MegaConfig,
            "megareward.rewards.mega",
            uses_score=False,
            needs_control=True,
        ),
        Method(
            "dir",
            "Direct control only: mega-reward without latent control.",
            DirConfig,
            "megareward.rewards.dir",
            uses_score=False,
            needs_control=True,
        ),
        Method("rnd", "Random network distillation: new frames.", RndConfig, "megareward.rewards.rnd", False),
        Method(
            "curiosity",
            "Curiosity: frames that the dynamics model does not foresee.",
            CuriosityConfig,
            "megareward.rewards.curiosity",
            uses_score=False,
        ),
        Method("count", "Count-based novelty: rare frames.", CountConfig, "megareward.rewards.count", False),
        Method("extrinsic", "PPO on the game's score (Ex-PPO).", ExtrinsicConfig, "megareward.rewards.extrinsic", True),
        Method("random", "Uniformly random actions.", NoSettings, "megareward.rewards.random_play", False, False),
    )
}


def find_method(name: str) -> Method:
    try:
        return METHODS[name.lower()]
    except KeyError:
        raise UsageError(
            f"There is no method '{name}'.{suggestion(name, METHODS)} `megareward methods` lists them."
        ) from None
