"""The control observer of things: the same fields as for cells, but control is carried by things."""

from collections.abc import Mapping
from typing import NamedTuple

import torch

from megareward.control.flash import is_flash
from megareward.control.latent import advance, chain
from megareward.observers.control import control_fields, control_metrics
from megareward.observers.interface import Context, Observer, Seen
from megareward.rollout import Field, Fields, Rollout
from megareward.state import State
from megareward.things.learner import ThingLearner
from megareward.things.models import ThingAttention, ThingModels
from megareward.types import Bool, Float, Int, Tensor, UInt8

PARTS_OF_A_SCREEN = 16
"""The reward for what moves counts pixels in such parts: a cell of the default grid, whatever the grid is."""


class ThingControl(NamedTuple):
    """Control of N environments after one step, as maps of cells; a cell has the highest value of the things it shows.
    All zero at the first frame of an episode."""

    direct: Float[Tensor, "N HW"]
    g: Float[Tensor, "N HW"]
    handed_on: Float[Tensor, "N HW"]
    mega_reward: Float[Tensor, "N"]
    """Summed over things, not over cells; in the form `moved`, weighted by their changed pixels."""
    held: Float[Tensor, "N"]
    """g summed over things."""


class ThingTracker:
    """Keeps the last frames of N environments, and g as paint on the pixels of things: a step later each thing is found
    there again, with its g."""

    def __init__(self, models: ThingModels, n_envs: int) -> None:
        self.models, self.latent = models, models.config.latent
        device, shape = models.device, models.frame_shape
        self.paint = torch.zeros(n_envs, *shape, device=device)
        self.last = torch.zeros(n_envs, models.K, *shape, dtype=torch.uint8, device=device)
        self.found = torch.zeros(n_envs, models.K, models.S, 6, dtype=torch.int64, device=device)
        """The things of these frames, so that no frame is searched twice."""
        self.background: UInt8[Tensor, "px_h px_w"] | None = None
        """With which they were found."""
        self.started = False

    @torch.no_grad()
    def step(
        self,
        stack: UInt8[Tensor, "n K px_h px_w"],
        actions: Int[Tensor, "n"],
        first: Bool[Tensor, "n"],
        rows: Int[Tensor, "n"],
    ) -> ThingControl:
        """One step of the environments `rows`: `actions` led to the newest frame, which comes last."""
        if not self.started:  # nothing is known of the frame before
            first = torch.ones_like(first)
        self.started = self.started or int(rows[-1]) == len(self.paint) - 1
        stack = stack[:, -self.models.K :]
        self._search_again_if_background_changed()
        before = self.found[rows]
        newest = self.models.find(stack[:, -1:])
        found = torch.cat([before[:, 1:], newest], 1)
        if first.any():  # all frames of these stacks may be others than those seen last
            found[first] = self.models.find(stack[first])
        self.found.index_copy_(0, rows, found)
        attention = self.models.attend(self.last[rows], actions, stack[:, -1], torch.cat([before, newest], 1))
        return self.follow(attention, stack, first, rows)

    def _search_again_if_background_changed(self) -> None:
        frame = self.models.background.frame
        if self.background is None or not torch.equal(self.background, frame):
            self.background = frame.clone()
            self.found.copy_(self.models.find(self.last))

    @torch.no_grad()
    def follow(
        self,
        attention: ThingAttention,
        stack: UInt8[Tensor, "n K px_h px_w"],
        first: Bool[Tensor, "n"],
        rows: Int[Tensor, "n"],
    ) -> ThingControl:
        """The same step, given the models' attention: Eq. 10 and 11 over things."""
        latent, (direct, relation, changed, before, now, goes_on) = self.latent, attention
        flash = is_flash(self.last[rows, -1], stack[:, -1], latent.flash) if latent.flash < 1 else None
        g_prev = (self.paint[rows, None] * before).amax((-2, -1))  # (n, S)
        direct = direct.masked_fill(first[:, None], 0)
        if latent.relation == "itself":
            relation = torch.diag_embed(goes_on.to(direct.dtype))
        passed_on = chain(relation, g_prev)
        if latent.background < 1:  # slots that hold nothing
            passed_on = passed_on * now.any((-2, -1))
        new = (self.last[rows, -1] != stack[:, -1])[:, None]
        moved = (now & new).float().mean((-2, -1)) * PARTS_OF_A_SCREEN  # an explosion counts for more than a bullet
        after = advance(g_prev, g_prev, direct, passed_on, first, flash, None, changed, latent, size=moved)
        paint, held = self._drawn(after.g, now), after.g.sum(-1)
        if flash is not None:  # things cannot be seen while everything flashes
            paint = torch.where((flash & ~first)[:, None, None], self.paint[rows], paint)
        self.paint.index_copy_(0, rows, paint)
        self.last.index_copy_(0, rows, stack)
        passed_on = passed_on.masked_fill(first[:, None], 0)
        left = before & goes_on[..., None, None]  # an action shows where a thing is, and where it no longer is
        maps = (self._drawn(direct, now | left), paint, self._drawn(passed_on, now))
        cells = [self.models.grid.to_cells(one).amax((-2, -1)) for one in maps]
        return ThingControl(cells[0], cells[1], cells[2], after.mega_reward, held)

    def _drawn(self, values: Float[Tensor, "n S"], now: Bool[Tensor, "n S px_h px_w"]) -> Float[Tensor, "n px_h px_w"]:
        return (values[:, :, None, None] * now).amax(1)

    @property
    def running(self) -> list[Tensor]:
        return [self.paint, self.last]

    def state_dict(self) -> State:
        return {"paint": self.paint.clone(), "last": self.last.clone(), "started": torch.tensor(self.started)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.paint.copy_(state["paint"])
        self.last.copy_(state["last"])
        self.started, self.background = bool(state["started"]), None


class ThingObserver(Observer):
    """Learnt maps of things. The number of drawings depends on the data, so no step is captured on a GPU."""

    def __init__(self, context: Context) -> None:
        world, config = context.world, context.control
        self.latent = config.latent
        self.models = ThingModels(config, world.frame_shape, world.n_actions, world.device, world.seed)
        self.tracker = ThingTracker(self.models, world.n_envs)
        self.learner = ThingLearner(self.models, world.seed) if context.learns else None
        self.fields = (*control_fields(self.models.grid, self.latent), Field("held"))

    def advance(self, seen: Seen) -> Fields:
        control = self.tracker.step(*seen)
        return {"direct": control.direct, "g": control.g, "mega_reward": control.mega_reward, "held": control.held}

    def changed(self) -> list[Tensor]:
        return self.tracker.running

    def learn(self, rollout: Rollout) -> dict[str, Tensor]:
        metrics: dict[str, Tensor] = {}
        if self.learner is not None:
            rows = (rollout.all_frames, rollout.actions, rollout.all_first, rollout.log_policy, rollout.first_on_cpu)
            metrics |= self.learner.update(*rows)
        return metrics | control_metrics(rollout, self.latent)

    def state_dict(self) -> State:
        return (self.learner or self.models).state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        (self.learner or self.models).load_state_dict(state)

    def running_state(self) -> State:
        return self.tracker.state_dict()

    def load_running_state(self, state: Mapping[str, Tensor]) -> None:
        self.tracker.load_state_dict(state)
