"""How things move in the mini games.

Positions and speeds are float32 multiples of 1/8 below 2^10, and every operation here keeps them so: all sums and
products are exact, and a game is the same to the last bit on every device.
"""

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import torch

from megareward.types import Bool, Float, Int, Tensor

GONE = -64.0
"""Height at which absent things wait: far outside the picture, touching nothing."""

if TYPE_CHECKING:
    State = TypeVar("State", bound=NamedTuple)
else:
    State = TypeVar("State", bound=tuple)  # NamedTuple is no class, so shape checks at run time cannot use it


def choose(mask: Bool[Tensor, "N"], yes: State, no: State) -> State:
    """For each environment, the whole of one state or of the other."""
    return type(no)._make(a if a is b else torch.where(_like(mask, a), a, b) for a, b in zip(yes, no, strict=True))


def direction(actions: Int[Tensor, "N"], minus: int, plus: int) -> Float[Tensor, "N"]:
    """-1, 0 or +1 for the two actions that move the player."""
    return (actions == plus).float() - (actions == minus).float()


def bounce(
    position: Float[Tensor, "N"], speed: Float[Tensor, "N"], low: float, high: float
) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
    """Mirror a position that left [low, high] back into it, and its speed with it."""
    mirrored = position.clamp(low, high) * 2 - position
    inside = mirrored == position
    return mirrored, torch.where(inside, speed, -speed)


def deflect(offset: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    """Speed along the paddle after a hit `offset` units from its middle: the farther out, the steeper.

    Never zero, so that no ball runs up and down one line for ever; at most 11/8 on a paddle that is hit within 4.
    """
    return ((offset * 1.5).floor() + 0.5) / 4


def touch(a: Tensor, a_length: float, b: Tensor | float, b_length: float) -> Tensor:
    """Whether two intervals, given by start and length, overlap; the starts may broadcast."""
    return (a < b + b_length) & (a > b - a_length)


def _like(mask: Bool[Tensor, "N"], value: Tensor) -> Tensor:
    return mask if value.ndim == 1 else mask.view(-1, *[1] * (value.ndim - 1))
