"""Things followed from frame to frame: each keeps its slot while it is seen, and has moved as far as its box has."""

from typing import NamedTuple

import torch

from megareward.objects.vision import TOLERANCE, Boxes
from megareward.types import Bool, Int, Tensor

REACH = 7
"""A thing moves by less than a REACH-th of the frame's longer side in one step (baseline sheet: 12 of 84 pixels)."""


class Slots(NamedTuple):
    """What each slot holds. Empty ones have area 0."""

    boxes: Boxes
    moves: Int[Tensor, "N S 2"]
    """Pixels down and right since the last frame; 0 where the thing is new or has changed its size."""
    followed: Bool[Tensor, "N S"]
    """Seen in the last frame, too, in the same size: it has only moved."""

    @classmethod
    def empty(cls, N: int, S: int, device: torch.device) -> "Slots":
        none = torch.zeros(N, S, dtype=torch.int64, device=device)
        return cls(Boxes(*(none.clone() for _ in Boxes._fields)), none.new_zeros(N, S, 2), none.bool())

    def tensors(self) -> list[Tensor]:
        return [*self.boxes, self.moves, self.followed]

    @classmethod
    def of(cls, tensors: list[Tensor]) -> "Slots":
        return cls(Boxes(*tensors[:6]), *tensors[6:])


def follow(before: Slots, found: Boxes, reach: int) -> Slots:
    """Every slot follows its thing; things that match no slot fill the free slots in their order."""
    boxes, goes_on = assign(before, found, reach)
    old = before.boxes
    same_size = (boxes.bottom - boxes.top == old.bottom - old.top) & (boxes.right - boxes.left == old.right - old.left)
    followed = goes_on & same_size
    moves = torch.stack([boxes.top - old.top, boxes.left - old.left], -1) * followed[..., None]
    return Slots(boxes, moves, followed)


def assign(before: Slots, found: Boxes, reach: int) -> tuple[Boxes, Bool[Tensor, "N S"]]:
    """The things found, slot by slot, and which slots still hold the same thing: the nearest one of its colour,
    nearest pairs first, measured from where it would be if it repeated its last move."""
    distance = _distances(before, found, reach)  # (N, S, S) of slot and thing
    N, S, _ = distance.shape
    never = torch.iinfo(distance.dtype).max
    match = torch.full((N, S), -1, dtype=torch.int64, device=distance.device)
    slots, none_left = torch.arange(S, device=distance.device), distance.new_full((N,), never)
    for _ in range(S):
        nearest, pair = distance.flatten(1).min(1)
        if nearest.device.type == "cpu" and torch.equal(nearest, none_left):  # few things need few rounds
            break
        slot, thing = pair // S, pair % S
        here = (slots == slot[:, None]) & (nearest < never)[:, None]  # (N, S)
        match = torch.where(here, thing[:, None], match)
        gone = here[:, :, None] | ((slots == thing[:, None]) & (nearest < never)[:, None])[:, None, :]
        distance = distance.masked_fill(gone, never)
    taken = (match[:, :, None] == slots).any(1)  # (N, things)
    free, fresh = match < 0, found.present & ~taken
    opens = (free.cumsum(1)[:, :, None] == fresh.cumsum(1)[:, None, :]) & free[:, :, None] & fresh[:, None, :]
    source = torch.where(free, opens.long().argmax(2), match)
    filled = ~free | opens.any(2)
    return Boxes(*(values.gather(1, source) * filled for values in found)), ~free


def _distances(before: Slots, found: Boxes, reach: int) -> Int[Tensor, "N S S"]:
    """Twice the distance between the middles; all different, so that every device finds the same nearest pair."""
    old = before.boxes
    middle_y, middle_x = (
        old.top + old.bottom + 2 * before.moves[..., 0],
        old.left + old.right + 2 * before.moves[..., 1],
    )
    down = (found.top + found.bottom)[:, None, :] - middle_y[:, :, None]
    across = (found.left + found.right)[:, None, :] - middle_x[:, :, None]
    way = torch.maximum(down.abs(), across.abs())
    alike = (found.level[:, None, :] - old.level[:, :, None]).abs() < TOLERANCE
    possible = old.present[:, :, None] & found.present[:, None, :] & alike & (way <= 2 * reach)
    S = way.shape[1]
    number = torch.arange(S * S, device=way.device).view(S, S)
    return torch.where(possible, way * S * S + number, torch.iinfo(way.dtype).max)
