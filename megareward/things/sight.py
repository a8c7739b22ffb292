"""Things found in a few frames, and followed from one to the next.

A thing is a connected patch of one level that is not the background (`objects.vision`), and it keeps its slot while it
is seen (`objects.tracking`). Levels are grey levels, or brighter and darker than the background (`things.models`).
Nothing is kept between calls: the same frames show the same things.
"""

from typing import NamedTuple

import torch

from megareward.objects.tracking import REACH, Slots, assign
from megareward.objects.vision import TOLERANCE, Boxes, find_boxes
from megareward.types import Bool, Int, Tensor, UInt8

SMALLEST = 2
"""Pixels of a thing; the largest are a quarter of the screen."""


class Things(NamedTuple):
    """Up to S things in N runs of F frames. A slot that is empty at a frame has a box of no pixels."""

    boxes: Int[Tensor, "N F S 4"]
    """Top, left, and the row and column behind the last ones."""
    levels: Int[Tensor, "N F S"]
    """Mean level."""
    goes_on: Bool[Tensor, "N F S"]
    """Whether it is the thing that the slot held a frame before."""

    @property
    def there(self) -> Bool[Tensor, "N F S"]:
        return self.boxes[..., 2] > 0

    @property
    def fresh(self) -> Bool[Tensor, "N F S"]:
        return self.there & ~self.goes_on

    def known_since(self) -> Bool[Tensor, "N F S"]:
        """Whether the slot has held the same thing from this frame to the last but one; last: whether it still does."""
        *_, F, _ = self.levels.shape
        since = [self.there[:, F - 2]]
        for f in range(F - 2, 0, -1):
            since.append(since[-1] & self.goes_on[:, f])
        return torch.stack([*since[::-1], self.goes_on[:, F - 1]], 1)


def find(
    frames: UInt8[Tensor, "N F px_h px_w"], background: UInt8[Tensor, "px_h px_w"], S: int
) -> Int[Tensor, "N F S 6"]:
    """The things in each frame, the largest first, as the numbers of `Boxes`; not yet matched between frames."""
    N, F, px_h, px_w = frames.shape
    found = find_boxes(frames.flatten(0, 1), background, S, (SMALLEST, px_h * px_w // 4))
    return torch.stack(found, -1).view(N, F, S, 6)


def most_in_a_frame(found: Int[Tensor, "N F S 6"]) -> int:
    """How many slots `follow` needs, at least 1: a new thing takes the first slot that is free."""
    return max(1, int((found[..., 4] > 0).sum(-1).max()))


def follow(found: Int[Tensor, "N F S 6"], reach: int) -> Things:
    """Match things from frame to frame, from the first on. A thing moves by less than `reach` pixels in a step."""
    N, _, S, _ = found.shape
    slots, seen = Slots.empty(N, S, found.device), []
    for frame in found.unbind(1):
        now, goes_on = assign(slots, Boxes(*frame.unbind(-1)), reach)
        old = slots.boxes
        moves = torch.stack([now.top - old.top, now.left - old.left], -1) * goes_on[..., None]
        slots = Slots(now, moves, goes_on)
        ends = torch.stack([now.top, now.left, (now.bottom + 1) * now.present, (now.right + 1) * now.present], -1)
        seen.append((ends, now.level, goes_on & now.present))
    return Things(*(torch.stack(parts, 1) for parts in zip(*seen, strict=True)))


def farthest(frame_shape: tuple[int, int]) -> int:
    return max(frame_shape) // REACH


def inside(boxes: Int[Tensor, "*B 4"], px_h: int, px_w: int) -> Bool[Tensor, "*B px_h px_w"]:
    """The pixels of boxes."""
    y, x = torch.arange(px_h, device=boxes.device), torch.arange(px_w, device=boxes.device)
    rows = (y >= boxes[..., 0, None]) & (y < boxes[..., 2, None])
    columns = (x >= boxes[..., 1, None]) & (x < boxes[..., 3, None])
    return rows[..., :, None] & columns[..., None, :]


def pixels(
    boxes: Int[Tensor, "*B 4"],
    levels: Int[Tensor, "*B"],
    frames: UInt8[Tensor, "*B px_h px_w"],
    background: UInt8[Tensor, "px_h px_w"],
) -> Bool[Tensor, "*B px_h px_w"]:
    """What belongs to a thing in the frame that shows it: the part of its box that has its level; not what
    another thing covers of it, nor what it covers of others."""
    darkest, brightest = (levels - TOLERANCE + 1).clamp(min=0), (levels + TOLERANCE - 1).clamp(max=255)
    darkest, brightest = (bound.to(torch.uint8)[..., None, None] for bound in (darkest, brightest))
    seen = (frames.to(torch.int16) - background.to(torch.int16)).abs() >= TOLERANCE
    return inside(boxes, *frames.shape[-2:]) & (frames >= darkest) & (frames <= brightest) & seen


def apart(one: Int[Tensor, "*B 4"], other: Int[Tensor, "*B 4"]) -> Int[Tensor, "*B"]:
    """How many pixels lie between two boxes, along the axis on which they are farther apart."""
    down = torch.maximum(one[..., 0] - other[..., 2], other[..., 0] - one[..., 2])
    across = torch.maximum(one[..., 1] - other[..., 3], other[..., 1] - one[..., 3])
    return torch.maximum(down, across).clamp(min=0)
