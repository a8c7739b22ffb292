"""Objects by sight: connected pixels that are not the background, as boxes with a grey level. No emulator memory.

All of it without waiting for the device and without a loop over environments.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F

from megareward.types import Bool, Int, Tensor, UInt8

TOLERANCE = 24
"""Grey levels: pixels that differ by less are of one colour."""
ROUNDS = 6
"""Rounds of passing labels on; each doubles how far a label reaches, so that long shapes are still one."""
AREA = (3, 1500)
"""Pixels of an object, at least and at most (baseline sheet)."""


class Boxes(NamedTuple):
    """Up to S things in each of N frames, the largest first; those that are not there have area 0."""

    top: Int[Tensor, "N S"]
    left: Int[Tensor, "N S"]
    bottom: Int[Tensor, "N S"]
    """Of the last row that belongs to it."""
    right: Int[Tensor, "N S"]
    area: Int[Tensor, "N S"]
    level: Int[Tensor, "N S"]
    """Mean grey level."""

    @property
    def present(self) -> Bool[Tensor, "N S"]:
        return self.area > 0


def components(
    levels: Int[Tensor, "N px_h px_w"], foreground: Bool[Tensor, "N px_h px_w"]
) -> Int[Tensor, "N px_h px_w"]:
    """For every pixel of the foreground the number of one pixel of its component, the same for all of them: neighbours
    (8 of them) of about the same grey level are connected. Other pixels keep their own number."""
    N, px_h, px_w = levels.shape
    own = torch.arange(px_h * px_w, device=levels.device).expand(N, -1)
    label = own
    levels, inside = F.pad(levels, (1, 1, 1, 1)), F.pad(foreground, (1, 1, 1, 1))
    directions = [(y, x) for y in (0, 1, 2) for x in (0, 1, 2) if (y, x) != (1, 1)]
    connected = [
        (
            (y, x),
            inside[:, y : y + px_h, x : x + px_w]
            & foreground
            & ((levels[:, y : y + px_h, x : x + px_w] - levels[:, 1:-1, 1:-1]).abs() < TOLERANCE),
        )
        for y, x in directions
    ]
    for _ in range(ROUNDS):
        padded = F.pad(label.view(N, px_h, px_w), (1, 1, 1, 1))
        now = label.view(N, px_h, px_w)
        for (y, x), joined in connected:
            now = torch.where(joined, torch.minimum(now, padded[:, y : y + px_h, x : x + px_w]), now)
        # The pixel that a label names takes the lowest new label of its pixels; they then take over that pixel's.
        lowest = label.scatter_reduce(1, label, now.flatten(1), "amin")
        known, label = label, lowest.gather(1, now.flatten(1))
        label = label.gather(1, label)
        if label.device.type == "cpu" and torch.equal(label, known):  # small shapes need few rounds
            break
    return label.view(N, px_h, px_w)


def find_boxes(
    frames: UInt8[Tensor, "N px_h px_w"],
    background: UInt8[Tensor, "px_h px_w"],
    n_boxes: int,
    areas: tuple[int, int] = AREA,
) -> Boxes:
    """The largest components of what is not background, as far as their area lies within `areas`."""
    N, px_h, px_w = frames.shape
    P, device = px_h * px_w, frames.device
    levels = frames.long()
    foreground = (levels - background.long()).abs() >= TOLERANCE
    label = components(levels, foreground).flatten(1)  # (N, P)
    inside, numbers = foreground.flatten(1), torch.arange(P, device=device).expand(N, -1)
    index = (label + P * torch.arange(N, device=device)[:, None]).flatten()

    def add(values: Tensor) -> Tensor:  # of whole numbers and on one axis: the same on every device
        return torch.zeros(N * P, dtype=torch.int64, device=device).scatter_add_(0, index, values.flatten()).view(N, P)

    area, brightness = add(inside.long()), add(levels.flatten(1) * inside)
    area = area * ((area >= areas[0]) & (area <= areas[1]))
    n = min(n_boxes, P)
    key = (area * P + (P - 1 - numbers)).topk(n, dim=1)  # no two are equal, so the order is the same everywhere
    chosen = key.indices
    there = area.gather(1, chosen)  # (N, n)

    def edge(values: Tensor, how: str) -> Tensor:
        outside = P if how == "amin" else -1
        base = torch.full((N, P), outside, dtype=torch.int64, device=device)
        extreme = base.scatter_reduce(1, label, values.masked_fill(~inside, outside), how)
        return extreme.gather(1, chosen) * (there > 0)

    row, column = numbers // px_w, numbers % px_w
    top, left, bottom, right = edge(row, "amin"), edge(column, "amin"), edge(row, "amax"), edge(column, "amax")
    level = brightness.gather(1, chosen) // there.clamp(min=1)
    boxes = Boxes(top, left, bottom, right, there, level * (there > 0))
    return boxes if n == n_boxes else Boxes(*(F.pad(values, (0, n_boxes - n)) for values in boxes))


def walls_of(background: UInt8[Tensor, "px_h px_w"]) -> Bool[Tensor, "px_h px_w"]:
    """What stands still and is not the ground: pixels of another grey level than the most common one."""
    levels = background.long()
    shades = torch.arange(256, device=background.device)
    ground = (levels.flatten()[:, None] == shades).sum(0).argmax()
    return (levels - ground).abs() >= TOLERANCE
