"""DEHRL's levels as an observer: each level picks the code of the level below, and holds it for some of its own steps.

    level 0    the agent, which acts by code 0: hold 8 steps
    level 1    picks code 0 by code 1: hold 4 of its own steps, which are 32
    top        picks the highest code, uniformly: without the game's score no code is better than another

The reward of the codes of level 0 is the agent's reward (`rewards.div`). The rewards of the codes above train the
managers here.
"""

from collections.abc import Mapping

import torch

from megareward.hierarchy.manager import Decisions, Manager
from megareward.observers.interface import Context, Observer, Seen
from megareward.rewards.div import Diversity, level_fields
from megareward.rng import set_rng_state
from megareward.rollout import Field, Fields, Rollout
from megareward.state import State, joined, part
from megareward.statistics.return_scale import ReturnScale
from megareward.types import Tensor


class UpperLevel:
    """A manager, the reward of its own codes, and the fields in which its decisions are recorded."""

    def __init__(self, context: Context, level: int) -> None:
        world, settings = context.world, context.settings
        self.level, seed = level, world.seed + 1000 * level
        self.manager = Manager(world, settings.n_skills, settings.upper_learning_rate, seed, settings.n_skills)
        self.diversity = Diversity(settings, world, level)
        self.scale = ReturnScale(world.n_envs, Manager.DISCOUNT, world.device)
        own, below = level_fields(level), level_fields(level - 1)
        self.log_prob, self.value = f"{below.skill}_log_prob", f"{below.skill}_value"
        self.names = (below.skill, below.drawn, self.log_prob, self.value, own.drawn, own.skill)
        """Of the fields of its `Decisions`."""

    def learn(self, rollout: Rollout) -> dict[str, Tensor]:
        recorded = rollout.recorded()
        raw = self.diversity.compute(recorded)
        decisions = Decisions(*(recorded.fields[name] for name in self.names))
        metrics = self.manager.learn(rollout, self.scale.scale(raw, recorded.real), decisions)
        metrics |= self.diversity.update(recorded)
        return {f"level_{self.level}/{name}": value for name, value in metrics.items()}

    def state_dict(self) -> State:
        return joined(
            manager=self.manager.state_dict(), diversity=self.diversity.state_dict(), scale=self.scale.state_dict()
        )

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.manager.load_state_dict(part(state, "manager"))
        self.diversity.load_state_dict(part(state, "diversity"))
        self.scale.load_state_dict(part(state, "scale"))


class Levels(Observer):
    """For every level: its code, whether it was drawn at this frame, and the frame at which it was."""

    capturable = True

    def __init__(self, context: Context) -> None:
        world, settings = context.world, context.settings
        N, K, device = world.n_envs, settings.n_skills, world.device
        self.spans, self.n_skills, self.learns = settings.spans, K, context.learns
        L = len(self.spans)
        self.upper = [UpperLevel(context, level) for level in range(1, L)]
        self.generator = torch.Generator(device).manual_seed(world.seed)
        self.offer = torch.zeros(N, dtype=torch.int64, device=device)
        """The next code of the top level, drawn in advance."""
        self.exponentials = torch.ones(max(L - 1, 1), N, K, device=device)
        """Random numbers of the managers."""
        self.age = torch.zeros(N, dtype=torch.int64, device=device)
        """Steps since the highest code was drawn; the codes below it end with it."""
        self.codes = torch.zeros(L, N, dtype=torch.int64, device=device)
        self.starts = torch.zeros(L, N, *world.frame_shape, dtype=torch.uint8, device=device)
        names = [level_fields(level) for level in range(L)]
        self.fields = (
            *(Field(name.skill, dtype=torch.int64) for name in names),
            *(Field(name.drawn, dtype=torch.bool) for name in names),
            *(Field(name.start, world.frame_shape, torch.uint8) for name in names),
            *(Field(name) for upper in self.upper for name in (upper.log_prob, upper.value)),
        )

    def prepare(self, group: int) -> None:
        if group == 0:  # for all, so that a code does not depend on the groups
            self.offer.random_(0, self.n_skills, generator=self.generator)
            self.exponentials.exponential_(generator=self.generator)

    @torch.no_grad()
    def advance(self, seen: Seen) -> Fields:
        frames, envs, fields = seen.stacks[:, -1], seen.envs, dict[str, Tensor]()
        age = (self.age[envs] + 1) * ~seen.first % self.spans[-1]
        above: Tensor | None = None  # (n,) the code of the level above
        for level in reversed(range(len(self.spans))):
            offer = self.offer[envs]
            if above is not None:
                upper = self.upper[level]
                offer, log_prob, value = upper.manager.decide(seen.stacks, above, self.exponentials[level, envs])
                fields |= {upper.log_prob: log_prob, upper.value: value}
            drawn = age % self.spans[level] == 0
            code = torch.where(drawn, offer, self.codes[level, envs])
            start = torch.where(drawn[:, None, None], frames, self.starts[level, envs])
            self.codes[level].index_copy_(0, envs, code)
            self.starts[level].index_copy_(0, envs, start)
            names, above = level_fields(level), code
            fields |= {names.skill: code, names.drawn: drawn, names.start: start}
        self.age.index_copy_(0, envs, age)
        return fields

    def changed(self) -> list[Tensor]:
        return [self.age, self.codes, self.starts]

    def learn(self, rollout: Rollout) -> dict[str, Tensor]:
        metrics: dict[str, Tensor] = {}
        for upper in self.upper if self.learns else ():
            metrics |= upper.learn(rollout)
        return metrics

    def state_dict(self) -> State:
        return joined(**{f"level_{upper.level}": upper.state_dict() for upper in self.upper})

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        for upper in self.upper:
            upper.load_state_dict(part(state, f"level_{upper.level}"))

    def running_state(self) -> State:
        codes = {"age": self.age.clone(), "codes": self.codes.clone(), "starts": self.starts.clone()}
        return codes | {"generator": self.generator.get_state()}

    def load_running_state(self, state: Mapping[str, Tensor]) -> None:
        for name in ("age", "codes", "starts"):
            getattr(self, name).copy_(state[name])
        set_rng_state(self.generator, state["generator"])


def build(context: Context) -> Observer:
    return Levels(context)
