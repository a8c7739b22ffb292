"""The world observer: V's code of each frame and M's state before it, for a policy to see (Ha and Schmidhuber
2018)."""

from collections.abc import Mapping

import torch

from megareward.errors import UsageError
from megareward.observers.interface import Context, Observer, Seen
from megareward.rollout import Field, Fields, Rollout
from megareward.state import State, joined, part
from megareward.types import Tensor
from megareward.world_model.learner import WorldModel

Z, H = "world_z", "world_h"


class WorldObserver(Observer):
    """Row t: the code z of frame t, and what M remembers, h, of the codes and actions before it. V and M learn from
    random play, then they are frozen."""

    capturable = True

    def __init__(self, context: Context) -> None:
        world, settings = context.world, context.settings
        self.model = WorldModel(settings, world.frame_shape, world.n_actions, world.device, world.seed)
        self.learns, self.always_learns = context.learns, settings.always_learns
        self.random_steps = context.random_steps
        self.seen = torch.zeros((), dtype=torch.int64)
        """Decisions that V and M have learnt from."""
        self.fields = (Field(Z, (settings.z,)), Field(H, (self.model.hidden,)))
        zeros = torch.zeros(world.n_envs, self.model.hidden, device=world.device)
        self.z = torch.zeros(world.n_envs, settings.z, device=world.device)
        self.h, self.c = zeros, zeros.clone()
        self.before = (zeros.clone(), zeros.clone())
        """h and c at the first frame of the rollout."""

    @torch.no_grad()
    def advance(self, seen: Seen) -> Fields:
        z, _ = self.model.vision.encode(seen.stacks[:, -1])
        state = (self.h[seen.envs], self.c[seen.envs])
        h, c = self.model.memory.advance(self.z[seen.envs], seen.actions, state)
        h, c = (x.masked_fill(seen.first[:, None], 0.0) for x in (h, c))
        for place, values in ((self.z, z), (self.h, h), (self.c, c)):
            place.index_copy_(0, seen.envs, values)
        return {Z: z, H: h}

    def changed(self) -> list[Tensor]:
        return [self.z, self.h, self.c]

    def learn(self, rollout: Rollout) -> dict[str, Tensor]:
        before, self.before = self.before, (self.h.clone(), self.c.clone())
        if not self.learns or not (self.always_learns or self.seen < self.random_steps):
            return {}
        recorded = rollout.recorded()
        ends = recorded.terminated | recorded.truncated
        metrics = self.model.update(recorded.frames, recorded.actions, recorded.first, ends, before)
        self.seen += rollout.T * rollout.n_envs
        return {f"world/{name}": value for name, value in metrics.items()}

    def state_dict(self) -> State:
        return joined(model=self.model.state_dict()) | {"seen": self.seen.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.model.load_state_dict(part(state, "model"))
        self.seen = state["seen"].cpu().clone()

    def running_state(self) -> State:
        return {"z": self.z.clone(), "h": self.h.clone(), "c": self.c.clone()}

    def load_running_state(self, state: Mapping[str, Tensor]) -> None:
        for name in ("z", "h", "c"):
            getattr(self, name).copy_(state[name])
        self.before = (self.h.clone(), self.c.clone())


def build(context: Context) -> Observer:
    """Refused where V and M would never learn anything."""
    if context.learns and not context.settings.always_learns and not context.random_steps and not context.starts_from:
        raise UsageError(
            "V and M learn from random play, but --warmup-steps is 0; give them some, or --from a run of "
            "`megareward pretrain world`."
        )
    return WorldObserver(context)
