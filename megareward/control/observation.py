"""What the control models see of a frame: scaled pixels, the noise anchor, cells as rows."""

from typing import Literal

import torch

from megareward.control.config import AnchorKind
from megareward.control.grid import Grid
from megareward.statistics.moments import Moments
from megareward.types import Bool, Float, Int, Shaped, Tensor, UInt8


class Normaliser:
    """[D11] (frame - mean of each pixel) / std, where std is one number: the mean over pixels of each pixel's.

    The statistics come from the first `n_frames` frames and stay fixed from then on. `fixed` is frame / 255.
    """

    def __init__(
        self, kind: Literal["pixel", "fixed"], frame_shape: tuple[int, int], n_frames: int, device: torch.device
    ) -> None:
        self.kind, self.n_frames, self.n_seen = kind, n_frames, 0
        self.moments = Moments.empty(frame_shape, device)
        self.mean = torch.zeros(frame_shape, device=device)
        self.std = torch.tensor(255.0, device=device)

    def observe(self, frames: UInt8[Tensor, "B px_h px_w"]) -> None:
        """Take frames into the statistics, evenly from all given, until there are enough."""
        wanted = 0 if self.kind == "fixed" else min(self.n_frames - self.n_seen, len(frames))
        if wanted <= 0:
            return
        chosen = torch.linspace(0, len(frames) - 1, wanted).round().long().to(frames.device)
        for part in chosen.split(512):  # float64 copies of a few frames at a time
            self.moments = self.moments.update(frames[part])
        self.n_seen += wanted
        # In place: a captured CUDA graph reads these very tensors.
        self.mean.copy_(self.moments.mean)
        self.std.copy_(self.moments.std.mean().clamp(min=1.0))  # a dead screen must not divide by zero

    def __call__(self, frames: UInt8[Tensor, "*B px_h px_w"]) -> Float[Tensor, "*B px_h px_w"]:
        return (frames - self.mean) / self.std

    @property
    def scale(self) -> Float[Tensor, ""]:
        """The range of the observation, by which Phi's tanh is multiplied (R5)."""
        return 255.0 / self.std

    def follow(self, other: "Normaliser") -> None:
        """Scale as another one does from now on; what it has seen stays its own."""
        self.mean.copy_(other.mean)
        self.std.copy_(other.std)

    def state_dict(self) -> dict[str, Tensor]:
        return {**self.moments._asdict(), "n_seen": torch.tensor(self.n_seen), "pixel_mean": self.mean, "std": self.std}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        device = self.mean.device
        self.moments = Moments(*(state[name].to(device) for name in Moments._fields))
        self.mean.copy_(state["pixel_mean"])
        self.std.copy_(state["std"])
        self.n_seen = int(state["n_seen"])


def anchor_noise(
    kind: AnchorKind, n: int, grid: Grid, generator: torch.Generator, device: torch.device
) -> Float[Tensor, "n px_h px_w"]:
    """[D6] One pattern of noise per sample: each cell brighter or darker, or each pixel, by 1.

    It is added to the newest frame of S_{t-1} and to s_t alike. Only the cell itself, a step ago, contains what the
    cell must show now, so a cell in which nothing happens has to attend to itself; without it every source draws an
    empty cell equally well, and the relation is arbitrary there. A brightness is one number, which Phi learns to hand
    on at once; a pattern of pixels has to pass through its whole bottleneck. It must not come close to what a source
    draws that knows nothing, the mean: `gauss` does now and then, and then every source will do again.
    """
    if kind != "pixel":
        brightness = torch.randn((n, grid.n_cells, 1, 1), generator=generator, device=device)
        brightness = brightness if kind == "gauss" else torch.where(brightness < 0, -1.0, 1.0)
        return grid.to_frames(brightness.expand(-1, -1, grid.cell_h, grid.cell_w))
    shape = (n, grid.H * grid.cell_h, grid.W * grid.cell_w)
    bits = torch.randint(0, 2, shape, dtype=torch.int8, generator=generator, device=device)
    return (2 * bits - 1).float()


def changed_cells(
    before: UInt8[Tensor, "*#B px_h px_w"], now: UInt8[Tensor, "B px_h px_w"], grid: Grid
) -> Bool[Tensor, "B HW"]:
    """Which cells show anything else than before."""
    return grid.to_cells(before != now).flatten(2).any(-1)


def cells_to_draw(
    before: UInt8[Tensor, "B px_h px_w"],
    now: UInt8[Tensor, "B px_h px_w"],
    lots: Float[Tensor, "B HW"],
    K: int,
    grid: Grid,
) -> Int[Tensor, "B K"]:
    """[D16] K cells of each transition, ascending: those that changed first, then others; among equals by lot."""
    return (changed_cells(before, now, grid) + lots).topk(K, -1).indices.sort(-1).values


def cell_rows(frames: Shaped[Tensor, "N K px_h px_w"], grid: Grid) -> Shaped[Tensor, "N HW n_in"]:
    """Every cell of a stack of K frames as one row, its pixels in (h, w, K) order as the layers want them."""
    return grid.to_cells(frames).permute(0, 2, 3, 4, 1).flatten(2)  # (N, K, HW, h, w) -> (N, HW, h, w, K)
