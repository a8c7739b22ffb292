"""Means over the rows that count."""

from megareward.types import Float, Tensor


def weighted_mean(x: Float[Tensor, "B *rest"], weight: Float[Tensor, "B"]) -> Float[Tensor, "*rest"]:
    """`weight` is 1 for rows that count and 0 for the others (0 if none does)."""
    w = weight.reshape(-1, *[1] * (x.dim() - 1))
    return (x * w).sum(0) / weight.sum().clamp(min=1.0)
