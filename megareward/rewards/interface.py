"""What a reward is: it reads a recorded rollout and returns one number per transition.

Masking resets, scaling and learning in the right order happen once, in `ScaledRewards`: a reward returns raw numbers.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import torch

from megareward.reward_stream import RewardStream
from megareward.rollout import Recorded
from megareward.state import State, joined, part
from megareward.statistics.return_scale import ReturnScale
from megareward.types import Float, Tensor


class Reward(Protocol):
    """`compute` has no side effects; only `update` learns; the state holds everything learnt."""

    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]: ...

    def update(self, recorded: Recorded) -> dict[str, Tensor]:
        """Learn from the rollout; return metrics."""
        ...

    def state_dict(self) -> State: ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None: ...


class Stateless:
    """Base of rewards that learn nothing."""

    def update(self, recorded: Recorded) -> dict[str, Tensor]:
        return {}

    def state_dict(self) -> State:
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        assert not state, f"a reward without state was given {sorted(state)}"


class RewardTerm(NamedTuple):
    """A reward and how it enters the return."""

    stream: RewardStream
    reward: Reward


class ScaledRewards:
    """The rewards of a method, in the order of events: compute, scale, (the agent learns), learn."""

    def __init__(self, terms: Sequence[RewardTerm], n_envs: int, device: torch.device) -> None:
        self.terms, self.device = list(terms), device
        self.scales = [ReturnScale(n_envs, stream.discount, device) for stream, _ in self.terms]

    @property
    def streams(self) -> list[RewardStream]:
        return [stream for stream, _ in self.terms]

    def beside(self, n_envs: int) -> "ScaledRewards":
        """The same rewards, learning included, with scales of their own for other environments."""
        return ScaledRewards(self.terms, n_envs, self.device)

    def compute(self, recorded: Recorded) -> list[Float[Tensor, "T N"]]:
        """Raw, by stream; nothing is earned by a reset."""
        return [reward.compute(recorded).masked_fill(~recorded.real, 0.0) for _, reward in self.terms]

    def scale(self, raw: Sequence[Float[Tensor, "T N"]], recorded: Recorded) -> list[Float[Tensor, "T N"]]:
        """Update the scales with a rollout, then divide it by them, for streams with `normalise`."""
        return [
            scale.scale(rewards, recorded.real) if stream.normalise else rewards
            for (stream, _), scale, rewards in zip(self.terms, self.scales, raw, strict=True)
        ]

    def scale_without_learning(
        self, raw: Sequence[Float[Tensor, "T N"]], recorded: Recorded
    ) -> list[Float[Tensor, "T N"]]:
        """What `scale` would return, without updating the scales."""
        twin = copy.copy(self)
        twin.scales = [copy.copy(scale) for scale in self.scales]  # which never write in place
        return twin.scale(raw, recorded)

    def scale_at_once(
        self, raw: Sequence[Float[Tensor, "T N"]], recorded: Recorded, settle_steps: int
    ) -> list[Float[Tensor, "T N"]]:
        """`scale` for rewards that are used step by step. They are 0 until a scale has seen `settle_steps` transitions
        of every environment, counted from the first reward that is not 0: the std of a few numbers is unreliable."""
        paid = []
        for (stream, _), scale, rewards in zip(self.terms, self.scales, raw, strict=True):
            if not stream.normalise or (scale.count == 0 and not rewards.any()):
                paid.append(rewards)
            else:
                scaled = scale.scale(rewards, recorded.real)
                paid.append(scaled * (scale.count > settle_steps * rewards.shape[1]))
        return paid

    def scale_as_is(self, raw: Sequence[Float[Tensor, "T N"]]) -> list[Float[Tensor, "T N"]]:
        """Rewards divided by the scales as they are: for a rollout that these have seen step by step."""
        return [
            rewards / scale.std.to(rewards.dtype) if stream.normalise else rewards
            for (stream, _), scale, rewards in zip(self.terms, self.scales, raw, strict=True)
        ]

    def update(self, recorded: Recorded) -> dict[str, Tensor]:
        """Every reward learns from the rollout. Returns metrics."""
        metrics: dict[str, Tensor] = {}
        for stream, reward in self.terms:
            metrics |= {f"{stream.name}/{name}": value for name, value in reward.update(recorded).items()}
        return metrics

    def state_dict(self) -> State:
        parts: dict[str, State] = {}
        for i, (_, reward) in enumerate(self.terms):
            parts |= {f"reward.{i}": reward.state_dict(), f"scale.{i}": self.scales[i].state_dict()}
        return joined(**parts)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        for i, (_, reward) in enumerate(self.terms):
            reward.load_state_dict(part(state, f"reward.{i}"))
            self.scales[i].load_state_dict(part(state, f"scale.{i}"))
