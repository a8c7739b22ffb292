"""The mesh of the paper: a frame as H x W cells, and the sizes of the layers that read and draw one cell.

Cells are numbered row by row, so cell i sits at (i // W, i % W). A relation is indexed [to, from].

Layer sizes
-----------
The paper gives networks for cells of 21 pixels (5x5 stride 2, then 4x4 stride 1, leaving 6x6), the released code one
for 12 pixels (4x4 stride 2, leaving 5x5). One rule gives both, and a network for every other cell. Along each axis:

  first      stride 2, kernel 5 if the side is odd and 4 if it is even, so that no pixel is cut off
  then       while more than 6 are left: the same again if more than 9 are left, else kernel 4 and stride 1
  tiny       a side too small for its kernel is read whole

Because no layer cuts off a pixel, the transposed layers in reverse order return exactly the cell's size. An axis
that needs fewer layers than the other gets kernel 1 in the rest. Sides of 8, 10, 12, 14, 21, 28, 42 and 84 pixels end
at 3, 4, 5, 6, 6, 5, 6 and 5.
"""

from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import torch

from megareward.errors import UsageError
from megareward.types import Int, Shaped, Tensor


class Layer(NamedTuple):
    """One convolution, (height, width) each. The map has `size` before it and `out` after it."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    size: tuple[int, int]
    out: tuple[int, int]


@dataclass(frozen=True)
class Grid:
    """H x W cells on frames of px_h x px_w pixels."""

    H: int
    W: int
    px_h: int
    px_w: int

    def __post_init__(self) -> None:
        for axis, cells, pixels in (("H", self.H, self.px_h), ("W", self.W, self.px_w)):
            if cells < 1 or pixels % cells:
                fitting = ", ".join(str(n) for n in range(1, pixels + 1) if pixels % n == 0)
                raise UsageError(f"{axis}={cells} does not divide {pixels} pixels. Use one of {fitting}.")

    @property
    def n_cells(self) -> int:
        return self.H * self.W

    @property
    def cell_h(self) -> int:
        return self.px_h // self.H

    @property
    def cell_w(self) -> int:
        return self.px_w // self.W

    @property
    def n_offsets(self) -> int:
        """How many values the relative coordinate (h - h', w - w') can take."""
        return (2 * self.H - 1) * (2 * self.W - 1)

    def to_cells(self, frames: Shaped[Tensor, "*B px_h px_w"]) -> Shaped[Tensor, "*B HW cell_h cell_w"]:
        *batch, _, _ = frames.shape
        cells = frames.reshape(*batch, self.H, self.cell_h, self.W, self.cell_w)
        return cells.transpose(-3, -2).reshape(*batch, self.n_cells, self.cell_h, self.cell_w)

    def to_frames(self, cells: Shaped[Tensor, "*B HW cell_h cell_w"]) -> Shaped[Tensor, "*B px_h px_w"]:
        *batch, _, _, _ = cells.shape
        frames = cells.reshape(*batch, self.H, self.W, self.cell_h, self.cell_w)
        return frames.transpose(-3, -2).reshape(*batch, self.px_h, self.px_w)

    def offsets(self, device: torch.device | None = None) -> Int[Tensor, "to from"]:
        """The relative coordinate c = (h - h', w - w') of every pair, numbered from 0."""
        h = torch.arange(self.H, device=device).repeat_interleave(self.W)  # (HW,)
        w = torch.arange(self.W, device=device).repeat(self.H)  # (HW,)
        dh = h[:, None] - h[None, :] + self.H - 1  # (to, from), in [0, 2H - 2]
        dw = w[:, None] - w[None, :] + self.W - 1
        return dh * (2 * self.W - 1) + dw

    def layers(self) -> tuple[Layer, ...]:
        """The convolutions that read one cell, first to last; see the module's text for the rule."""
        layers, size = [], (self.cell_h, self.cell_w)
        waiting = (1, 1)
        for (kernel_h, stride_h), (kernel_w, stride_w) in zip_longest(
            _axis(self.cell_h), _axis(self.cell_w), fillvalue=waiting
        ):
            out = ((size[0] - kernel_h) // stride_h + 1, (size[1] - kernel_w) // stride_w + 1)
            layers.append(Layer((kernel_h, kernel_w), (stride_h, stride_w), size, out))
            size = out
        return tuple(layers)


def _axis(side: int) -> list[tuple[int, int]]:
    """(kernel, stride) of every layer along one axis."""
    layers: list[tuple[int, int]] = []
    while not layers or side > 6:
        if not layers or side > 9:
            kernel, stride = (5 if side % 2 else 4), 2
        else:
            kernel, stride = 4, 1
        if kernel > side:
            kernel, stride = side, 1
        layers.append((kernel, stride))
        side = (side - kernel) // stride + 1
    return layers
