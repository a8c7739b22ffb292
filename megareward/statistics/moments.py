"""Mean and standard deviation of a stream, kept exactly and in batches (Chan, Golub & LeVeque 1979)."""

from typing import NamedTuple

import torch

from megareward.types import Float, Shaped, Tensor


class Moments(NamedTuple):
    """Number, mean and summed squared deviation, elementwise over tensors of one shape, in float64."""

    n: Float[Tensor, ""]
    mean: Float[Tensor, "*S"]
    squares: Float[Tensor, "*S"]

    @staticmethod
    def empty(shape: tuple[int, ...] = (), device: torch.device | None = None) -> "Moments":
        zeros = torch.zeros(shape, dtype=torch.float64, device=device)
        return Moments(torch.zeros((), dtype=torch.float64, device=device), zeros, zeros.clone())

    def update(self, batch: Shaped[Tensor, "B *S"]) -> "Moments":
        """The moments after the entries of `batch` as well."""
        if len(batch) == 0:
            return self
        x = batch.double()
        n, mean = self.n + len(x), x.mean(0)
        squares = ((x - mean) ** 2).sum(0)
        delta = mean - self.mean
        return Moments(
            n,
            self.mean + delta * (len(x) / n),
            self.squares + squares + delta**2 * (self.n * len(x) / n),
        )

    @property
    def std(self) -> Float[Tensor, "*S"]:
        """Standard deviation of the population; zero for an empty stream."""
        return (self.squares / self.n.clamp(min=1)).sqrt()
