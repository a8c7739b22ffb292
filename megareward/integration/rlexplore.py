"""Drop-ins for scripts written for RLeXplore: change the import, keep the rest.

    from megareward.integration.rlexplore import Mega as RE3     # was: from rllte.xplore.reward import RE3
    irs = RE3(envs, device)
    irs.watch(...)                                               # after every step
    rewards += irs.compute(samples)                              # before the advantages

As there, `compute` also learns, unless sync=False. Unlike there, no environment is stepped, and flags must be those of
the very step (their example for CleanRL passes those of the step before).
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from gymnasium.vector import AutoresetMode

from megareward.integration.api import make
from megareward.types import Float, Tensor


class RLeXploreReward:
    """A reward of the zoo with RLeXplore's constructor; everything else is that of `make`'s."""

    method: ClassVar[str]

    def __init__(self, envs: Any, device: torch.device | str = "cpu", **settings: Any) -> None:
        """`envs` of Gymnasium or Stable-Baselines3: only its spaces, number and autoreset mode are read."""
        observations = getattr(envs, "single_observation_space", envs.observation_space)
        actions = getattr(envs, "single_action_space", envs.action_space)
        mode = (getattr(envs, "metadata", None) or {}).get("autoreset_mode")
        settings.setdefault("autoreset", "next_step" if mode == AutoresetMode.NEXT_STEP else "same_step")
        self.reward = make(self.method, observations, actions, getattr(envs, "num_envs", 1), device=device, **settings)
        self.metrics: dict[str, float] = {}
        """Of the last update."""

    def __getattr__(self, name: str) -> Any:
        if name == "reward":
            raise AttributeError(name)
        return getattr(self.reward, name)

    def compute(self, samples: Mapping[str, Any], sync: bool = True) -> Float[Tensor, "T N"]:
        """The rewards; then, if `sync`, an update."""
        rewards = self.reward.compute(samples)
        if sync:
            self.update(samples)
        return rewards

    def update(self, samples: Mapping[str, Any]) -> dict[str, float]:
        self.metrics = self.reward.update(samples)
        return self.metrics


class Mega(RLeXploreReward):
    method = "mega"


class Dir(RLeXploreReward):
    method = "dir"


class RND(RLeXploreReward):
    method = "rnd"


class Curiosity(RLeXploreReward):
    method = "curiosity"


class Count(RLeXploreReward):
    method = "count"
