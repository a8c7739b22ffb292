"""Read metrics from the device, and stop a run in which anything is not finite."""

import math

import torch

from megareward.errors import RunError
from megareward.types import Tensor


class NotFiniteError(RunError):
    """Something became NaN or infinite."""

    def __init__(self, name: str, number: float) -> None:
        super().__init__(f"'{name}' became {number}")
        self.name = name


def read_finite(metrics: dict[str, Tensor], weights: dict[str, torch.nn.Parameter]) -> dict[str, float]:
    """All metrics as numbers, in one transfer. Raises if one of them, or any of the policy's weights, is not finite."""
    if not metrics:  # random play has nothing to check
        return {}
    names = list(metrics)
    sums = [w.detach().abs().sum() for w in weights.values()]
    numbers = torch.stack([*(metrics[name].float() for name in names), *sums]).tolist()
    for name, number in zip([*names, *(f"policy.{w}" for w in weights)], numbers, strict=True):
        if not math.isfinite(number):
            raise NotFiniteError(name, number)
    return dict(zip(names, numbers[: len(names)], strict=True))
