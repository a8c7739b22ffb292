"""Drop-ins for scripts written for RLeXplore: change the import.

    from megareward.integration.rlexplore import Mega as RE3     # was: from rllte.xplore.reward import RE3
    irs = RE3(envs, device)
    irs.watch(...)                                               # after every step
    rewards += irs.compute(samples)                              # before the advantages

As there, `compute` also learns, unless sync=False; then it takes a whole rollout, or each step as it comes, and
`update` follows. Rewards combine in a `Fabric`. Unlike there, no environment is stepped, networks and their training
are ours, and options of theirs without a counterpart are named in a warning. docs/own-code.md says which of their
tutorials run.

Flags are to be those of the very step. Their scripts hand over those of the step before: to `compute` after watching
the right ones, which are then taken, with a warning; or to `watch`, which warns as soon as it shows.
"""

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from megareward.errors import UsageError
from megareward.integration.api import make
from megareward.integration.observations import read_flags
from megareward.integration.samples import check_watched, read_rollout
from megareward.integration.steps import UserSteps
from megareward.rewards import find_method
from megareward.types import Float, Tensor

OURS = {"lr": "learning_rate", "update_proportion": "update_fraction"}
"""RLeXplore's options and our names of these settings, which apply if the method has them."""
WITHOUT_EFFECT = (
    *("latent_dim", "encoder_model", "weight_init", "storage_size", "ensemble_size", "average_entropy", "ridge"),
    *("k", "kernel_cluster_distance", "kernel_epsilon", "c", "sm", "mrs"),
)
"""RLeXplore's options of networks and memories that do not exist here; they have no effect."""


class RLeXploreReward:
    """A reward with RLeXplore's constructor, `compute` and `update`; everything else is as in the reward of `make`."""

    method: ClassVar[str]

    def __init__(
        self,
        envs: Any,
        device: torch.device | str = "cpu",
        beta: float = 1.0,
        kappa: float = 0.0,
        gamma: float | None = None,
        rwd_norm_type: str = "rms",
        obs_norm_type: str | None = None,
        *,
        batch_size: int = 256,
        **options: Any,
    ) -> None:
        """`envs` of Gymnasium or Stable-Baselines3: only its spaces, number and autoreset mode are read.

        beta, kappa    Factor of the reward, and the share by which the factor shrinks with every `compute`.
        gamma          Discount of the return whose spread scales the reward; None: the method's own.
        rwd_norm_type  rms: scaled, none: raw.
        batch_size     Only stored, for scripts that sample so many from a replay buffer.
        options        Further options of RLeXplore or of `make`.
        """
        if rwd_norm_type not in ("rms", "none"):
            raise UsageError(f"rwd_norm_type is {rwd_norm_type!r}; use 'rms' or 'none'.")
        known = {field.name for field in dataclasses.fields(find_method(self.method).config)}
        settings, lost = {}, [] if obs_norm_type is None else ["obs_norm_type"]
        for name, value in options.items():
            ours = OURS.get(name, name)
            if name in WITHOUT_EFFECT or (name in OURS and ours not in known):
                lost.append(name)
            else:
                settings[ours] = value
        if lost:
            names = ", ".join(lost)
            warnings.warn(f"{names}: without effect here, where networks and frames have their own.", stacklevel=2)
        if gamma is not None:
            settings["discount"] = gamma
        if rwd_norm_type == "none":
            settings["normalise"] = False
        self.reward = make(self.method, envs, device=device, **settings)
        self.beta, self.kappa, self.batch_size, self.global_step = beta, kappa, batch_size, 0
        self.observation_space, self.obs_shape = self.reward.reader.space, self.reward.reader.shape
        self.metrics: dict[str, float] = {}
        """Metrics of the last update."""

    def __getattr__(self, name: str) -> Any:
        if name == "reward":
            raise AttributeError(name)
        return getattr(self.reward, name)

    @property
    def weight(self) -> float:
        """Factor of the last computed rewards."""
        return float(self.beta * (1 - self.kappa) ** self.global_step)

    def compute(self, samples: Mapping[str, Any], sync: bool = True) -> Float[Tensor, "T N"]:
        """The rewards; if `sync`, followed by an update. Without `sync`, samples may be only the step watched last."""
        self.global_step += 1
        samples = self._with_watched_flags(samples)
        if not sync and self.watcher.steps and _shape(samples)[:1] == (1,):
            given = read_rollout(samples, self.n_envs, self.reader, self.action_space, self.device)
            check_watched(given, UserSteps.of(self.watcher.steps[-1:]))
            return self.weight * self.reward.newest()[None]
        rewards = self.weight * self.reward.compute(samples)
        if sync:
            self.update(samples)
        return rewards

    def update(self, samples: Mapping[str, Any]) -> dict[str, float]:
        """Learn from the watched steps; or, if the method has no control map, from a replayed batch (B, 1, ...)."""
        samples = self._with_watched_flags(samples)
        shape, watched = _shape(samples), len(self.watcher.steps)
        replayed = shape[1:] == (1,) and shape != (watched, self.n_envs) and (watched > 0 or self.n_envs > 1)
        if replayed and self.models is not None:  # their script swallows the error that follows
            warnings.warn(
                f"'{self.method}' learns nothing from a replay buffer; take RND, Curiosity or Count.", stacklevel=2
            )
        self.metrics = self.reward.replay(samples) if replayed else self.reward.update(samples)
        return self.metrics

    def _with_watched_flags(self, samples: Mapping[str, Any]) -> Mapping[str, Any]:
        """The samples, with flags of the step before replaced by the watched ones."""
        watched, names = self.watcher.steps, ("terminateds", "truncateds")
        shape = (len(watched), self.n_envs)
        if len(watched) < 2 or _shape(samples) != shape or not samples.keys() >= set(names):
            return samples
        given = [read_flags(samples[name], shape, name).to(self.device) for name in names]
        right = [torch.stack([step.terminated for step in watched]), torch.stack([step.truncated for step in watched])]
        said, ended = given[0] | given[1], right[0] | right[1]
        if torch.equal(said, ended) or not torch.equal(said[1:], ended[:-1]):
            return samples
        warnings.warn(
            "terminateds and truncateds of the samples are those of the step before (as SB3's episode_starts and "
            "CleanRL's dones are); those that were watched are taken instead.",
            stacklevel=3,
        )
        return {**samples, **dict(zip(names, right, strict=True))}


def _shape(samples: Mapping[str, Any]) -> tuple[int, ...]:
    """(T, N); () if there are no rewards: errors in samples are reported where they are read."""
    return tuple(getattr(samples.get("rewards"), "shape", ()))


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


class Fabric:
    """Several rewards that watch the same steps; a subclass combines the list that `compute` returns."""

    def __init__(self, *rewards: RLeXploreReward) -> None:
        if len(rewards) < 2 or not all(isinstance(reward, RLeXploreReward) for reward in rewards):
            raise UsageError("A Fabric takes two or more rewards of megareward.integration.rlexplore.")
        self.rewards = list(rewards)
        self.device, self.n_envs, self.batch_size = rewards[0].device, rewards[0].n_envs, rewards[0].batch_size

    def watch(self, *step: Any, **named: Any) -> None:
        for reward in self.rewards:
            reward.watch(*step, **named)

    def compute(self, samples: Mapping[str, Any], sync: bool = True) -> list[Float[Tensor, "T N"]]:
        return [reward.compute(samples, sync) for reward in self.rewards]

    def update(self, samples: Mapping[str, Any]) -> None:
        for reward in self.rewards:
            reward.update(samples)
