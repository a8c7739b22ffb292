"""The skill observer: which of a few codes each environment plays with. A policy that sees the code can have skills.

A code is drawn uniformly at the first frame of an episode, held for some steps, then drawn again.
"""

from collections.abc import Mapping

import torch

from megareward.observers.interface import Context, Observer, Seen
from megareward.rng import set_rng_state
from megareward.rollout import Field, Fields
from megareward.state import State
from megareward.types import Bool, Int, Tensor

SKILL, DRAWN = "skill", "skill_drawn"


class SkillObserver(Observer):
    """Row t of `skill` is the code by which the agent acts on frame t; `skill_drawn` says that it is a new one.

    When a trained run only plays, a code is held for a whole game, lives included: its score is that of one skill.
    """

    fields = (Field(SKILL, dtype=torch.int64), Field(DRAWN, dtype=torch.bool))
    capturable = True

    def __init__(self, context: Context) -> None:
        world, settings = context.world, context.settings
        self.n_skills, self.hold, self.learns = settings.n_skills, settings.hold, context.learns
        self.generator = torch.Generator(world.device).manual_seed(world.seed)
        self.offer = torch.zeros(world.n_envs, dtype=torch.int64, device=world.device)
        """The next code of each environment, drawn in advance."""
        self.skill, self.age = torch.zeros_like(self.offer), torch.zeros_like(self.offer)
        self.awaits = torch.ones_like(self.offer, dtype=torch.bool)
        """Play only: whether the next first frame of this environment opens a game, and so draws a code."""

    def prepare(self, group: int) -> None:
        if group == 0:  # for all, so that a code does not depend on the groups
            self.offer.random_(0, self.n_skills, generator=self.generator)

    def advance(self, seen: Seen) -> Fields:
        age, drawn = self.grow_older(seen)
        skill = torch.where(drawn, self.offer[seen.envs], self.skill[seen.envs])
        for place, values in ((self.skill, skill), (self.age, age), (self.awaits, self.awaits[seen.envs] & ~drawn)):
            place.index_copy_(0, seen.envs, values)
        return {SKILL: skill, DRAWN: drawn}

    def grow_older(self, seen: Seen) -> tuple[Int[Tensor, "n"], Bool[Tensor, "n"]]:
        """Steps since the code was drawn, and whether it is drawn now."""
        age = (self.age[seen.envs] + 1) * ~seen.first
        if not self.learns:
            return age, seen.first & self.awaits[seen.envs]
        age = age % self.hold
        return age, age == 0

    def new_game(self, env: int) -> None:
        self.awaits[env] = True

    def changed(self) -> list[Tensor]:
        return [self.skill, self.age, self.awaits]

    def running_state(self) -> State:
        codes = {"skill": self.skill.clone(), "age": self.age.clone()}
        return codes | {"generator": self.generator.get_state()}

    def load_running_state(self, state: Mapping[str, Tensor]) -> None:
        self.skill.copy_(state["skill"])
        self.age.copy_(state["age"])
        set_rng_state(self.generator, state["generator"])


def build(context: Context) -> Observer:
    return SkillObserver(context)
