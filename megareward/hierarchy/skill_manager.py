"""SNN4HRL's second phase as an observer: a manager, trained on the score, picks codes of fixed skills.

level 0    the agent, whose policy is frozen: it acts by the code
manager    picks the code from what the agent sees: hold 16 steps, or until the episode ends
"""

from collections.abc import Mapping

import torch

from megareward.hierarchy.manager import Decisions, Manager
from megareward.observers.interface import Context, Observer, Seen
from megareward.observers.skills import DRAWN, SKILL
from megareward.rewards.extrinsic import Extrinsic
from megareward.rng import set_rng_state
from megareward.rollout import Field, Fields, Rollout
from megareward.state import State
from megareward.types import Tensor

LOG_PROB, VALUE = "skill_log_prob", "skill_value"
STACK = 4
"""Frames that the manager sees."""


class SkillManager(Observer):
    """Row t of `skill` is the code by which the agent acts on frame t; `skill_drawn` says that it was picked there."""

    fields = (Field(SKILL, dtype=torch.int64), Field(DRAWN, dtype=torch.bool), Field(LOG_PROB), Field(VALUE))
    capturable = True

    def __init__(self, context: Context) -> None:
        world, settings = context.world, context.settings
        self.hold, self.learns, self.episodic = settings.hold, context.learns, world.episodic
        self.manager = Manager(world, settings.n_skills, settings.learning_rate, world.seed, stack=STACK)
        self.score = Extrinsic(settings)
        self.generator = torch.Generator(world.device).manual_seed(world.seed)
        self.exponentials = torch.ones(world.n_envs, settings.n_skills, device=world.device)
        """Random numbers of the manager."""
        self.skill = torch.zeros(world.n_envs, dtype=torch.int64, device=world.device)
        self.age = torch.zeros_like(self.skill)
        """Steps since the code was picked."""

    def prepare(self, group: int) -> None:
        if group == 0:  # for all, so that a code does not depend on the groups
            self.exponentials.exponential_(generator=self.generator)

    @torch.no_grad()
    def advance(self, seen: Seen) -> Fields:
        age = (self.age[seen.envs] + 1) * ~seen.first % self.hold
        drawn = age == 0
        offer, log_prob, value = self.manager.decide(seen.stacks, None, self.exponentials[seen.envs])
        skill = torch.where(drawn, offer, self.skill[seen.envs])
        self.skill.index_copy_(0, seen.envs, skill)
        self.age.index_copy_(0, seen.envs, age)
        return {SKILL: skill, DRAWN: drawn, LOG_PROB: log_prob, VALUE: value}

    def changed(self) -> list[Tensor]:
        return [self.skill, self.age]

    def learn(self, rollout: Rollout) -> dict[str, Tensor]:
        """Learn from the score between two picks. Where ends count, the return ends there, and at a time limit."""
        if not self.learns:
            return {}
        recorded = rollout.recorded()
        ends = (recorded.terminated | recorded.first) & self.episodic
        code, drawn, log_prob, value = (recorded.fields[name] for name in (SKILL, DRAWN, LOG_PROB, VALUE))
        decisions = Decisions(code, drawn, log_prob, value, cut=ends)
        metrics = self.manager.learn(rollout, self.score.compute(recorded) * recorded.real, decisions)
        return {f"manager/{name}": value for name, value in metrics.items()}

    def state_dict(self) -> State:
        return self.manager.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.manager.load_state_dict(state)

    def running_state(self) -> State:
        return {"skill": self.skill.clone(), "age": self.age.clone(), "generator": self.generator.get_state()}

    def load_running_state(self, state: Mapping[str, Tensor]) -> None:
        self.skill.copy_(state["skill"])
        self.age.copy_(state["age"])
        set_rng_state(self.generator, state["generator"])


def build(context: Context) -> Observer:
    return SkillManager(context)
