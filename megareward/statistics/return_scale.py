"""Rewards normalised by the standard deviation of their discounted return."""

from collections.abc import Mapping

import torch

from megareward.types import Bool, Float, Tensor


class ReturnScale:
    """Running standard deviation of R <- discount * R + r, filtered over time in each environment (RND, curiosity).

    The filter runs along T, never along N, and is never cleared; no mean is subtracted, so a reward keeps its sign.
    """

    def __init__(self, n_envs: int, discount: float, device: torch.device) -> None:
        self.discount = discount
        self.filtered = torch.zeros(n_envs, device=device)
        self.count = torch.zeros((), dtype=torch.float64, device=device)
        self.mean = torch.zeros((), dtype=torch.float64, device=device)
        self.squares = torch.zeros((), dtype=torch.float64, device=device)
        """Sum of squared deviations from the mean."""

    def scale(self, rewards: Float[Tensor, "T N"], real: Bool[Tensor, "T N"]) -> Float[Tensor, "T N"]:
        """Add a rollout to the statistics, then divide it. Steps that are not real transitions are left out."""
        returns = []
        for r, happened in zip(rewards, real, strict=True):
            self.filtered = torch.where(happened, self.discount * self.filtered + r, self.filtered)
            returns.append(self.filtered)
        self._observe(torch.stack(returns), real)
        return rewards / self.std.to(rewards.dtype)

    @property
    def std(self) -> Float[Tensor, ""]:
        """The standard deviation; 1 while all values were the same, so a reward that is always 0 stays 0."""
        variance = self.squares / self.count.clamp(min=1)
        return torch.where(variance > 1e-16, variance, torch.ones_like(variance)).sqrt()

    def _observe(self, x: Float[Tensor, "T N"], real: Bool[Tensor, "T N"]) -> None:
        """Chan et al.: join the moments of a batch with those of all earlier ones."""
        weight = real.double()
        n = weight.sum()
        mean = (x * weight).sum() / n.clamp(min=1)
        squares = ((x - mean) ** 2 * weight).sum()
        total = (self.count + n).clamp(min=1)
        shift = mean - self.mean
        self.squares = self.squares + squares + shift**2 * self.count * n / total
        self.mean = self.mean + shift * n / total
        self.count = self.count + n

    def state_dict(self) -> dict[str, Tensor]:
        return {name: getattr(self, name).clone() for name in ("filtered", "count", "mean", "squares")}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        for name, tensor in state.items():
            setattr(self, name, tensor.to(self.filtered.device))
