"""What the control models see of a frame: the noise anchor, changed cells, cells as rows."""

import torch

from megareward.cells import any_in_cells
from megareward.control.config import AnchorKind
from megareward.control.grid import Grid
from megareward.types import Bool, Float, Int, Shaped, Tensor, UInt8


def anchor_noise(
    kind: AnchorKind, n: int, grid: Grid, generator: torch.Generator, device: torch.device
) -> Float[Tensor, "n px_h px_w"]:
    """One pattern of noise per sample: +1 or -1 for each cell, or for each pixel; `gauss`: a normal number per cell.

    It is added to the newest frame of S_{t-1} and to s_t alike. Only the cell itself, a step ago, contains the noise
    that the cell must show now, so a cell in which nothing happens has to attend to itself; without noise every source
    draws an empty cell equally well, and the relation is arbitrary there. A brightness is one number, which Phi soon
    learns to pass on; a pattern of pixels has to fit through its bottleneck. The noise must not come close to the mean,
    which a source without information draws: `gauss` sometimes does, and then all sources are equally good again.
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
    return any_in_cells(before != now, grid.H, grid.W)


def cells_to_draw(
    before: UInt8[Tensor, "B px_h px_w"],
    now: UInt8[Tensor, "B px_h px_w"],
    priorities: Float[Tensor, "B HW"],
    K: int,
    grid: Grid,
) -> Int[Tensor, "B K"]:
    """K cells of each transition, ascending: those that changed first, then others; among equals at random."""
    return (changed_cells(before, now, grid) + priorities).topk(K, -1).indices.sort(-1).values


def cell_rows(frames: Shaped[Tensor, "N K px_h px_w"], grid: Grid) -> Shaped[Tensor, "N HW n_in"]:
    """Every cell of a stack of K frames as one row, its pixels in (h, w, K) order as the layers want them."""
    return grid.to_cells(frames).permute(0, 2, 3, 4, 1).flatten(2)  # (N, K, HW, h, w) -> (N, HW, h, w, K)
