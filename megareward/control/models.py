"""ADM and RTM together, as used to find what is controlled: networks, statistics that scale frames, and attention.

Training is in `control.learning`; `control.fast` computes the same numbers faster.
"""

import importlib.util
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import nn

from megareward.control.adm import ADM
from megareward.control.background import Background
from megareward.control.config import ControlConfig, Switch
from megareward.control.fast.folded import FoldedDirect, FoldedRelation
from megareward.control.grid import Grid
from megareward.control.layers import choose_execution
from megareward.control.local_rtm import LocalRTM
from megareward.control.observation import anchor_noise, cell_rows
from megareward.control.rtm import RTM
from megareward.errors import UsageError
from megareward.nets import multiplies_bfloat16
from megareward.state import State, joined, part
from megareward.statistics.normaliser import Normaliser
from megareward.types import Float, Int, Tensor, UInt8


class Attention(NamedTuple):
    """What the two models attend to in one step."""

    direct: Float[Tensor, "N HW"]
    """alpha(s_t, a_{t-1}), Eq. 3."""
    relation: Float[Tensor, "N HW HW"]
    """alpha(s_t, s_{t-1})[to, from], Eq. 8."""


class ControlModels:
    """The two models and how they see frames. Frames go in as bytes."""

    def __init__(
        self,
        config: ControlConfig,
        frame_shape: tuple[int, int],
        n_actions: int,
        device: torch.device | str = "cpu",
        seed: int = 0,
    ) -> None:
        self.config, self.frame_shape, self.n_actions = config, frame_shape, n_actions
        self.device = torch.device(device)
        self.grid = Grid(config.H, config.W, *frame_shape)
        with torch.random.fork_rng(devices=[]):  # weights depend on the seed only, and leave the global rng as it was
            torch.manual_seed(seed)
            self.adm = ADM(self.grid, config.adm, n_actions)
            model = LocalRTM if config.rtm.model == "local" else RTM
            self.rtm: LocalRTM | RTM = model(self.grid, config.rtm, n_actions)
        self.modules = nn.ModuleDict({"adm": self.adm, "rtm": self.rtm}).to(self.device).eval()
        self.normaliser = Normaliser(config.normalise, frame_shape, config.normalise_frames, self.device)
        self.background = Background(frame_shape, config.background_frames, self.device)
        how, on_cpu = config.execution, self.device.type == "cpu"
        self.bf16 = chosen_bf16(how.bf16, self.device, self.grid)
        dense, fused = chosen(how.dense, self.device), chosen_fused(how.fused, self.device)
        choose_execution(self.modules, dense=None if how.dense == "auto" and on_cpu else dense, fused=fused)
        self._fused_cells = dense and fused
        """Whether one kernel turns bytes into rows; these are padded for fast products: a little wider than cells."""
        self._dtype = torch.bfloat16 if self.bf16 else torch.float32
        self._folded: tuple[FoldedDirect, FoldedRelation | None] | None = None
        """Made on first use: models that are only trained need none."""
        self._stale = True
        """The weights have changed since they were folded."""

    @torch.no_grad()
    def attend(
        self,
        stack: UInt8[Tensor, "N K px_h px_w"],
        actions: Int[Tensor, "N"],
        now: UInt8[Tensor, "N px_h px_w"],
        anchor: Float[Tensor, "N px_h px_w"] | None,
    ) -> Attention:
        """Eq. 3 and Eq. 8 for one real transition of every environment, with the learnt statistics of BatchNorm."""
        self.refresh()
        return Attention(self._direct(stack[:, -1:], now[:, None]), self._relation(stack, actions, now, anchor))

    def _direct(
        self, before: UInt8[Tensor, "N 1 px_h px_w"], now: UInt8[Tensor, "N 1 px_h px_w"]
    ) -> Float[Tensor, "N HW"]:
        if self.adm.lambda_ is None:  # differences of frames are taken before anything is rounded
            cells = self.see_exactly(before), self.see_exactly(now)
        else:
            cells = (seen := self.see(now)), seen  # Eq. 2-3 look at the new frame alone
        if self._folded is not None:
            return self._folded[0](*cells)
        with self.autocast():
            return self.adm.attend(*cells)

    def _relation(
        self,
        stack: UInt8[Tensor, "N K px_h px_w"],
        actions: Int[Tensor, "N"],
        now: UInt8[Tensor, "N px_h px_w"],
        anchor: Float[Tensor, "N px_h px_w"] | None,
    ) -> Float[Tensor, "N HW HW"]:
        if isinstance(self.rtm, LocalRTM):
            scaled, last = (self.normaliser(stack), actions, self.normaliser(now)), stack[:, -1]
            empty = self.background.shown(last, self.grid)
            with self.autocast():
                return self.rtm.attend(*scaled, now != last, empty, self.normaliser.scale)
        source, target = self.see(stack, anchor), self.see(now[:, None], anchor)
        if self._folded is not None and self._folded[1] is not None:
            return self._folded[1](source, actions, target)
        with self.autocast():
            return self.rtm.attend(source, actions, target)

    def anchor(self, n: int, generator: torch.Generator) -> Float[Tensor, "n px_h px_w"] | None:
        """A noise pattern for each of n samples, if there is an anchor."""
        config = self.config.rtm
        if not config.anchor or config.model == "local":
            return None
        return anchor_noise(config.anchor_kind, n, self.grid, generator, self.device)

    def see(
        self, frames: UInt8[Tensor, "N K px_h px_w"], anchor: Float[Tensor, "N px_h px_w"] | None = None
    ) -> Float[Tensor, "N HW n_in"]:
        """The cells of stacks as the models see them: scaled, with the noise anchor on the newest frame."""
        if not self._fused_cells:
            return self.see_exactly(frames, anchor)
        from megareward.control.fast import fused_cells  # needs Triton, which a CPU may not have

        scale = (self.normaliser.mean, self.normaliser.std)
        return fused_cells.cell_rows(frames, *scale, anchor, self.config.rtm.anchor, self.grid, self._dtype)

    def see_exactly(
        self, frames: UInt8[Tensor, "N K px_h px_w"], anchor: Float[Tensor, "N px_h px_w"] | None = None
    ) -> Float[Tensor, "N HW n_in"]:
        """`see` in float32, rows no wider than a cell."""
        scaled = self.normaliser(frames)
        if anchor is not None:
            newest = scaled[:, -1:] + self.config.rtm.anchor * anchor[:, None]
            scaled = torch.cat([scaled[:, :-1], newest], 1)
        return cell_rows(scaled, self.grid)

    def autocast(self) -> torch.autocast:
        # Without a cache of casts, so that a CUDA graph reads the weights themselves, as they change.
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16, cache_enabled=False)

    # Weights that change -------------------------------------------------------------------------------------------

    def invalidate(self) -> None:
        """To be called when the weights have changed, so that they are folded anew."""
        self._stale = True

    def refresh(self) -> None:
        """Fold the current weights. `attend` does this itself; code that replays it as a CUDA graph must call it."""
        if self._stale and self.config.execution.folded != "off":
            if self._folded is None:
                relation = FoldedRelation(self.rtm, self._dtype) if isinstance(self.rtm, RTM) else None
                self._folded = FoldedDirect(self.adm, self._dtype), relation
            for part_of_it in self._folded:
                if part_of_it is not None:
                    part_of_it.refresh()
        self._stale = False

    def copy_from(self, models: "ControlModels") -> None:
        """Take over the weights and statistics of other models, in place: a CUDA graph reads these very tensors."""
        mine, theirs = self.modules.state_dict(), models.modules.state_dict()
        for name, tensor in mine.items():
            tensor.copy_(theirs[name])
        self.invalidate()
        self.normaliser.copy_from(models.normaliser)
        self.background.copy_from(models.background)

    def state_dict(self) -> State:
        """All that `attend` needs, as flat names and tensors."""
        return joined(
            modules=self.modules.state_dict(),
            normaliser=self.normaliser.state_dict(),
            background=self.background.state_dict(),
        )

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Anything else in the state, such as the learner's part, is ignored."""
        self.modules.load_state_dict(part(state, "modules"))
        self.invalidate()
        self.normaliser.load_state_dict(part(state, "normaliser"))
        self.background.load_state_dict(part(state, "background"))


def chosen(switch: Switch, device: torch.device) -> bool:
    return switch == "on" or (switch == "auto" and device.type == "cuda")


LARGE_CELL = 16**2
"""Pixels per cell from which bfloat16 on a CPU saves more time than converting to it costs: cells of Atari have 441,
those of mini games 64."""


def chosen_bf16(switch: Switch, device: torch.device, grid: Grid) -> bool:
    """Like `chosen`; with `auto` also on a CPU where it is faster."""
    pays = grid.cell_h * grid.cell_w >= LARGE_CELL and multiplies_bfloat16(device)
    return chosen(switch, device) or (switch == "auto" and pays)


def chosen_fused(switch: Switch, device: torch.device) -> bool:
    """Like `chosen`, if Triton is available."""
    available = device.type == "cuda" and importlib.util.find_spec("triton") is not None
    if switch == "on" and not available:
        raise UsageError(f"execution.fused is on, but there is no Triton for {device}; use auto or off.")
    return available and switch != "off"
