"""The control observer: direct control, accumulated control g and mega-reward for every frame (Eq. 1-11)."""

from collections.abc import Mapping

import torch

from megareward.control.config import LatentConfig
from megareward.control.flash import flash_share
from megareward.control.grid import Grid
from megareward.control.learning.learner import ControlLearner
from megareward.control.learning.schedule import Schedule
from megareward.control.models import ControlModels
from megareward.cuda.streams import CudaStreams
from megareward.observers.interface import Context, Observer, Seen
from megareward.observers.tracker import Control, ControlTracker
from megareward.rollout import Field, Fields, Rollout
from megareward.state import State
from megareward.types import Tensor


def control_fields(grid: Grid, latent: LatentConfig, with_relation: bool = False) -> tuple[Field, ...]:
    """The recorded fields of control. As a picture, g is divided by its upper bound."""
    HW, shape = grid.n_cells, (grid.H, grid.W)
    fields = (
        Field("direct", (HW,), picture=shape),
        Field("g", (HW,), picture=shape, scale=1 / latent.bound),
        Field("mega_reward"),
    )
    return (*fields, Field("relation", (HW, HW))) if with_relation else fields


def fields_of(control: Control) -> Fields:
    return {"direct": control.direct, "g": control.g, "mega_reward": control.mega_reward}


def control_metrics(rollout: Rollout, latent: LatentConfig) -> dict[str, Tensor]:
    """How much is under control, and how often the screen flashes."""
    metrics = {}
    if latent.flash < 1:
        frames = rollout.recorded().frames
        metrics["control/flashes"] = flash_share(frames[:-1], frames[1:], rollout.real, latent.flash)
    return metrics | {"control/g": rollout.fields["g"].sum(-1).mean()}


class ControlObserver(Observer):
    """Learnt maps: a tracker that looks at each frame, and the schedule by which its models learn."""

    def __init__(self, context: Context) -> None:
        world, config = context.world, context.control
        self.latent = config.latent

        def models() -> ControlModels:
            return ControlModels(config, world.frame_shape, world.n_actions, world.device, world.seed)

        self.models = models()
        """Those that make the maps; with overlap a lagged copy of those that learn."""
        self.tracker = ControlTracker(self.models, world.n_envs, world.seed, context.env.n_groups)
        self.schedule: Schedule | None = None
        if context.learns:
            streams = context.streams or CudaStreams(world.device, enabled=False)
            learner = ControlLearner(models() if context.overlaps else self.models, world.seed)
            self.schedule = Schedule(learner, self.models if context.overlaps else None, streams)
            self.threaded = self.schedule.threaded
        self.capturable = config.execution.graph != "off"
        self.with_relation = context.with_relation
        self.fields = control_fields(self.models.grid, self.latent, self.with_relation)

    def prepare(self, group: int) -> None:
        self.tracker.prepare(group)

    @torch.no_grad()
    def advance(self, seen: Seen) -> Fields:
        """Direct control, g and mega-reward of the newest frames."""
        control = self.tracker.advance(*seen)
        relation = {"relation": control.relation} if self.with_relation and control.relation is not None else {}
        return {**fields_of(control), **relation}

    def changed(self) -> list[Tensor]:
        return self.tracker.running

    def learn(self, rollout: Rollout) -> dict[str, Tensor]:
        """The models learn, at once or while the next rollout is collected; then the metrics are one rollout late."""
        metrics: dict[str, Tensor] = {}
        if self.schedule is not None:
            rows = (rollout.all_frames, rollout.actions, rollout.all_first, rollout.first_on_cpu, rollout.log_policy)
            metrics |= self.schedule.begin(*rows)
        return metrics | control_metrics(rollout, self.latent)

    def work(self, steps_left: int) -> None:
        if self.schedule is not None:
            self.schedule.work(steps_left)

    def finish(self) -> dict[str, Tensor]:
        return {} if self.schedule is None else self.schedule.finish()

    def state_dict(self) -> State:
        return self.models.state_dict() if self.schedule is None else self.schedule.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        if self.schedule is None:
            self.models.load_state_dict(state)
        else:
            self.schedule.load_state_dict(state)

    def running_state(self) -> State:
        return self.tracker.state_dict()

    def load_running_state(self, state: Mapping[str, Tensor]) -> None:
        self.tracker.load_state_dict(state)


def build(context: Context) -> Observer:
    """Learnt maps of cells or of things or, where the settings ask for this diagnosis, true ones."""
    if context.control.things.slots:
        from megareward.observers.things import ThingObserver

        return ThingObserver(context)
    if context.control.oracle.lags:
        from megareward.observers.oracle import Oracle

        return Oracle(context)
    return ControlObserver(context)
