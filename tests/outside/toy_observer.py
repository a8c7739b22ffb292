"""An observer from outside the package: it counts the steps of each episode, and the policy sees the count.

One file, one row for the observer, one for a method that asks for it. The reward of the method reads the field, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from megareward.observers.interface import Context, Observer, Seen
from megareward.reward_stream import RewardStream
from megareward.rewards import Method
from megareward.rewards.interface import RewardTerm, Stateless
from megareward.rollout import Field, Fields, Recorded, Rollout
from megareward.state import State
from megareward.types import Float, Tensor
from megareward.world import World


@dataclass(frozen=True)
class PatienceConfig:
    """Settings of the method; the observer gets them, too."""

    per_step: float = 0.125
    n_skills: int = 3


class StepCounter(Observer):
    fields = (Field("age", (2,)), Field("phase", dtype=torch.int64))
    """The age in two units, and the age modulo the number of phases."""
    capturable = True

    def __init__(self, context: Context) -> None:
        self.settings = context.settings
        self.age = torch.zeros(context.world.n_envs, device=context.world.device)
        self.episodes = torch.zeros((), device=context.world.device)
        self.unit = torch.tensor([self.settings.per_step, 1.0], device=context.world.device)

    def advance(self, seen: Seen) -> Fields:
        age = torch.where(seen.first, 0.0, self.age[seen.envs] + 1)
        self.age.index_copy_(0, seen.envs, age)
        return {"age": age[:, None] * self.unit, "phase": age.long() % self.settings.n_skills}

    def changed(self) -> list[Tensor]:
        return [self.age]

    def learn(self, rollout: Rollout) -> dict[str, Tensor]:
        self.episodes = self.episodes + rollout.first[1:].sum()
        return {"counter/episodes": self.episodes}

    def state_dict(self) -> State:
        return {"episodes": self.episodes}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.episodes = state["episodes"]

    def running_state(self) -> State:
        return {"age": self.age.clone()}

    def load_running_state(self, state: Mapping[str, Tensor]) -> None:
        self.age.copy_(state["age"])


class Patience(Stateless):
    """Pays for being old."""

    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]:
        return recorded.fields["age"][1:, :, 0]


def build_reward(config: PatienceConfig, world: World) -> list[RewardTerm]:
    return [RewardTerm(RewardStream("patience"), Patience())]


def build(*args: object) -> object:
    """An observer is built from a context, a reward from its settings and the world: this one file has both."""
    return StepCounter(*args) if len(args) == 1 else build_reward(*args)


OBSERVER = ("counter", __name__)
ROW = Method(
    "patience", "Long episodes.", PatienceConfig, __name__, observers=("counter",), vectors=("age",), skill="phase"
)
