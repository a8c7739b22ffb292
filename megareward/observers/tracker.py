"""The control map of running environments, one step at a time and without gradient."""

from collections.abc import Mapping
from typing import NamedTuple

import torch

from megareward.control.flash import is_flash
from megareward.control.latent import above_chance, advance, chain, clear, hold_still
from megareward.control.models import Attention, ControlModels, chosen
from megareward.control.observation import changed_cells
from megareward.cuda.graphs import CapturedFunction
from megareward.errors import UsageError
from megareward.rng import set_rng_state
from megareward.state import State
from megareward.types import Bool, Float, Int, Tensor, UInt8


class Control(NamedTuple):
    """Control of N environments after one step. All zero at the first frame of an episode."""

    direct: Float[Tensor, "N HW"]
    g: Float[Tensor, "N HW"]
    mega_reward: Float[Tensor, "N"]
    """Eq. 11, in the form that the config asks for."""
    relation: Float[Tensor, "N HW HW"] | None
    """[to, from]; only if asked for."""


class ControlTracker:
    """Keeps g and the last frames of N environments. On a GPU a step is one CUDA graph (execution.graph).

    The environments may come in groups of equal size, one after the other; all of them share the graph, and the result
    is the same.
    """

    def __init__(self, models: ControlModels, n_envs: int, seed: int = 0, n_groups: int = 1) -> None:
        self.models, self.latent = models, models.config.latent
        device, K = models.device, models.config.rtm.stack
        self.noise = torch.Generator(device).manual_seed(seed)
        self.g = torch.zeros(n_envs, models.grid.n_cells, device=device)
        self.memory = torch.zeros_like(self.g)
        """The highest g of each cell so far, discounted; see `control.latent.remember`."""
        self.last = torch.zeros(n_envs, K, *models.frame_shape, dtype=torch.uint8, device=device)
        self.started = False
        # The arguments of a step, at a fixed place in memory.
        n = n_envs // n_groups
        self._stack = torch.zeros_like(self.last[:n])
        self._actions = torch.zeros(n, dtype=torch.int64, device=device)
        self._first = torch.zeros(n, dtype=torch.bool, device=device)
        self._rows = torch.arange(n, device=device)
        self._anchor = models.anchor(n, torch.Generator(device))
        self._anchors: Tensor | None = None
        graph = chosen(models.config.execution.graph, device)
        self._advance_all = CapturedFunction(self._advance, enabled=graph, restores=lambda: self.running)

    @property
    def running(self) -> list[Tensor]:
        """What `advance` changes."""
        return [self.g, self.memory, self.last]

    def step(
        self,
        stack: UInt8[Tensor, "N K px_h px_w"],
        actions: Int[Tensor, "N"],
        first: Bool[Tensor, "N"],
        with_relation: bool = False,
        group: int = 0,
    ) -> Control:
        """`stack` holds the newest frames, newest last; `actions` led to the newest; `first`: it opens an episode.

        With groups, N is the size of one, and successive calls pass `group` = 0, 1, 2, ... in turn.
        """
        K, n = self.last.shape[1], len(self._actions)
        if stack.shape[1] < K:
            raise UsageError(
                f"The tracker got stacks of {stack.shape[1]} frames; rtm.stack is {K}, so give {K} or more."
            )
        self._stack.copy_(stack[:, -K:])
        self._actions.copy_(actions)
        self._first.copy_(first)
        if not self.started:  # whatever the caller says, nothing is known of the frame before
            self._first.fill_(True)
        torch.arange(group * n, (group + 1) * n, out=self._rows)
        self.prepare(group)
        control = self._advance_all()
        relation = control.relation.clone() if with_relation and control.relation is not None else None
        return Control(control.direct.clone(), control.g.clone(), control.mega_reward.clone(), relation)

    def begin_anew(self, stack: UInt8[Tensor, "N K px_h px_w"], which: Bool[Tensor, "N"]) -> None:
        """Start an episode in these environments, whose stacks show its first frame, if no step led to it."""
        self.last.copy_(torch.where(which[:, None, None, None], stack, self.last))
        self.g.masked_fill_(which[:, None], 0)
        self.memory.masked_fill_(which[:, None], 0)

    def prepare(self, group: int = 0) -> None:
        """What `advance` needs and no CUDA graph can do: noise, and the current weights."""
        n, n_envs = len(self._actions), len(self.g)
        if group == 0:  # noise for all, so that it does not depend on the groups
            self._anchors = self.models.anchor(n_envs, self.noise)
        if self._anchor is not None and self._anchors is not None:
            self._anchor.copy_(self._anchors[group * n : (group + 1) * n])
        self.started = self.started or (group + 1) * n == n_envs
        self.models.refresh()

    def _advance(self) -> Control:
        return self.advance(self._stack, self._actions, self._first, self._rows)

    @torch.no_grad()
    def advance(
        self,
        stack: UInt8[Tensor, "n K px_h px_w"],
        actions: Int[Tensor, "n"],
        first: Bool[Tensor, "n"],
        rows: Int[Tensor, "n"],
    ) -> Control:
        """One step of the environments `rows`, one group of them, after `prepare`."""
        return self.follow(self.attend(stack, actions, rows), stack, first, rows)

    def attend(
        self, stack: UInt8[Tensor, "n K px_h px_w"], actions: Int[Tensor, "n"], rows: Int[Tensor, "n"]
    ) -> Attention:
        """What the models attend to in this step."""
        return self.models.attend(self.last[rows], actions, stack[:, -1], self._anchor)

    @torch.no_grad()
    def follow(
        self,
        attention: Attention,
        stack: UInt8[Tensor, "n K px_h px_w"],
        first: Bool[Tensor, "n"],
        rows: Int[Tensor, "n"],
    ) -> Control:
        """The same step, given the models' attention: everything that is not learnt."""
        (direct, relation), latent, grid = attention, self.latent, self.models.grid
        last, g_prev = self.last[rows], self.g[rows]
        stack = stack[:, -last.shape[1] :]
        before, now = last[:, -1], stack[:, -1]
        flash = is_flash(before, now, latent.flash) if latent.flash < 1 else None
        changed = changed_cells(before, now, grid)
        if latent.relation == "itself":
            relation = hold_still(relation, torch.zeros_like(first)[:, None])
        elif self.models.config.rtm.still_on_itself:
            relation = hold_still(relation, changed)
        if flash is not None:
            relation = hold_still(relation, ~flash[:, None])
        direct = clear(direct, first)  # no action of this episode has led here
        counted = above_chance(direct) if latent.above_chance else direct
        background = self.models.background.shown(now, grid) if latent.background < 1 else None
        passed_on = chain(relation, g_prev)
        after = advance(g_prev, self.memory[rows], counted, passed_on, first, flash, background, changed, latent)
        for place, values in zip(self.running, (after.g, after.memory, stack), strict=True):
            place.index_copy_(0, rows, values)
        return Control(direct, after.g, after.mega_reward, relation.masked_fill(first[:, None, None], 0))

    def state_dict(self) -> State:
        started = torch.tensor(self.started)
        maps = {"g": self.g.clone(), "memory": self.memory.clone()}
        return {**maps, "last": self.last.clone(), "started": started, "noise": self.noise.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.g.copy_(state["g"])
        self.memory.copy_(state["memory"])
        self.last.copy_(state["last"])
        self.started = bool(state["started"])
        set_rng_state(self.noise, state["noise"])
