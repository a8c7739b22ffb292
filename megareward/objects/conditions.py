"""What an object's move may depend on, as bits: walls and other things beside it, and how it moved last (OO-MDP's
relations between objects)."""

import torch
import torch.nn.functional as F

from megareward.objects.tracking import Slots
from megareward.types import Bool, Int, Tensor

GAPS = (0, 1, 3)
"""Free pixels up to which something counts as beside: touching, and nearer than a step of one, two or four pixels."""
SIDES = ("north", "south", "west", "east")
NAMES = (
    *(f"{what} {side} within {gap}" for what in ("wall", "object") for side in SIDES for gap in GAPS),
    "on an object",
    *(f"moved {side}" for side in SIDES),
)
"""Of the bits, in order."""


def conditions(slots: Slots, walls: Bool[Tensor, "px_h px_w"]) -> Bool[Tensor, "N S bits"]:
    """The bits of every slot, as in `NAMES`; the frame's border counts as a wall."""
    y, x = slots.moves.unbind(-1)
    moved = torch.stack([y < 0, y > 0, x < 0, x > 0], -1)
    objects, on = beside_objects(slots)
    return torch.cat([beside_walls(slots, walls), objects, on[..., None], moved], -1)


def beside_walls(slots: Slots, walls: Bool[Tensor, "px_h px_w"]) -> Bool[Tensor, "N S sides_gaps"]:
    """Whether a wall crosses the strip beside each side of a box."""
    reach = GAPS[-1] + 1
    padded = F.pad(walls, (reach,) * 4, value=True)
    in_rows, in_columns = (F.pad(padded.long().cumsum(1 - i), (1, 0) if i == 0 else (0, 0, 1, 0)) for i in (0, 1))
    top, left, bottom, right = (edge + reach for edge in slots.boxes[:4])
    bits = []
    for outward, edge in ((-1, top), (1, bottom), (-1, left), (1, right)):
        hit = torch.zeros_like(slots.followed)
        for gap in range(reach):
            line = edge + outward * (gap + 1)
            if edge is top or edge is bottom:
                hit = hit | (in_rows[line, right + 1] > in_rows[line, left])
            else:
                hit = hit | (in_columns[bottom + 1, line] > in_columns[top, line])
            if gap in GAPS:
                bits.append(hit)
    return torch.stack(bits, -1)


def beside_objects(slots: Slots) -> tuple[Bool[Tensor, "N S sides_gaps"], Bool[Tensor, "N S"]]:
    """The same for the boxes of other slots; and whether any overlaps."""
    top, left, bottom, right = (edge[:, :, None] for edge in slots.boxes[:4])  # of one
    its_top, its_left, its_bottom, its_right = (edge[:, None, :] for edge in slots.boxes[:4])  # of the other
    S, present = top.shape[1], slots.boxes.present
    other = present[:, :, None] & present[:, None, :] & ~torch.eye(S, dtype=torch.bool, device=present.device)
    above = (left <= its_right) & (its_left <= right) & other  # or below
    aside = (top <= its_bottom) & (its_top <= bottom) & other
    bits = []
    for gaps, in_line in (
        (top - its_bottom - 1, above),
        (its_top - bottom - 1, above),
        (left - its_right - 1, aside),
        (its_left - right - 1, aside),
    ):
        bits += [(in_line & (gaps >= 0) & (gaps <= gap)).any(2) for gap in GAPS]
    return torch.stack(bits, -1), (above & aside).any(2)


def packed(bits: Bool[Tensor, "*B bits"]) -> Int[Tensor, "*B"]:
    """All bits as one whole number, for the rollout."""
    return (bits.long() << torch.arange(bits.shape[-1], device=bits.device)).sum(-1)


def unpacked(numbers: Int[Tensor, "*B"]) -> Bool[Tensor, "*B bits"]:
    return (numbers[..., None] >> torch.arange(len(NAMES), device=numbers.device)) % 2 > 0
