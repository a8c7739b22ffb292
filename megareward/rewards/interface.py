"""What a reward is: it reads a recorded rollout and returns one number per transition.

Scaling, weighting and adding up happen once, outside (`mixing`, `training.loop`): a reward returns raw numbers.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch

from megareward.reward_stream import RewardStream
from megareward.types import Bool, Float, Int, Tensor, UInt8


@dataclass(frozen=True)
class World:
    """What a method may know of the game before it starts."""

    n_envs: int
    n_actions: int
    frame_shape: tuple[int, int]
    device: torch.device
    seed: int


@dataclass(frozen=True)
class ControlRecord:
    """What the control tracker said of each frame while it was played. All zero at the first frame of an episode."""

    direct: Float[Tensor, "T_plus_1 N HW"]
    """Eq. 3: what the last action controls directly."""
    g: Float[Tensor, "T_plus_1 N HW"]
    """Eq. 10: accumulated control."""
    growth: Float[Tensor, "T N"]
    """Eq. 11 for each transition, in the form that the control settings ask for."""


@dataclass(frozen=True)
class Recorded:
    """T steps of N environments as the agent saw them: frame t, action t, frame t+1. See `envs.interface`."""

    frames: UInt8[Tensor, "T_plus_1 N px_h px_w"]
    actions: Int[Tensor, "T N"]
    first: Bool[Tensor, "T_plus_1 N"]
    terminated: Bool[Tensor, "T_plus_1 N"]
    truncated: Bool[Tensor, "T_plus_1 N"]
    r_ext: Float[Tensor, "T N"] | None
    """The game's rewards; None unless the method declares that it uses the score."""
    control: ControlRecord | None = None
    """None where no tracker runs."""

    @property
    def real(self) -> Bool[Tensor, "T N"]:
        """True where t -> t+1 is a transition inside one episode."""
        return ~self.first[1:]


class Reward(Protocol):
    """Computing has no side effects; learning is apart; everything learnt is in the state."""

    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]: ...

    def update(self, recorded: Recorded) -> dict[str, Tensor]:
        """Learn from the rollout; return metrics."""
        ...

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, state: dict[str, Tensor]) -> None: ...


class Stateless:
    """Base of rewards that learn nothing."""

    def update(self, recorded: Recorded) -> dict[str, Tensor]:
        return {}

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        assert not state, f"a reward without state was given {sorted(state)}"


class RewardTerm(NamedTuple):
    """A reward and how it enters the advantage."""

    stream: RewardStream
    reward: Reward
