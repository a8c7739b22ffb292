"""Steps that change most of the screen at once: what they are, how many there are, and when that is too many."""

from collections.abc import Mapping

import torch

from megareward.types import Bool, Float, Tensor, UInt8


def is_flash(
    before: UInt8[Tensor, "B px_h px_w"], now: UInt8[Tensor, "B px_h px_w"], share: float
) -> Bool[Tensor, "B"]:
    """Whether more than this share of the pixels changed at once."""
    changed = (before != now).flatten(1)
    return changed.sum(-1, dtype=torch.int32) > share * changed.shape[1]


def flash_share(
    before: UInt8[Tensor, "T N px_h px_w"],
    now: UInt8[Tensor, "T N px_h px_w"],
    real: Bool[Tensor, "T N"],
    share: float,
) -> Float[Tensor, ""]:
    """Share of the T x N steps that are flashes; a reset does not count as one."""
    flashes = is_flash(before.flatten(0, 1), now.flatten(0, 1), share).view_as(real)
    return (flashes & real).float().mean()


def too_many_flashes(numbers: Mapping[str, float]) -> str:
    """A warning if the screen usually moves as a whole, such as a driver's view; otherwise an empty string."""
    share = numbers.get("control/flashes", 0.0)
    if share <= 0.5:
        return ""
    return (
        f"{share:.0%} of the steps change most of the screen. They count as flashes, which give no control and pass "
        "none on (docs/paper.md), so mega-reward has next to nothing to reward."
    )
