"""From scores to a distribution over the last axis: sparsemax (Martins & Astudillo 2016), 1.5-entmax, softmax.

Both sparse maps subtract a threshold tau and cut at zero, so most cells get exactly nothing:

  sparsemax   p_i = max(z_i - tau, 0)           the distribution nearest to z
  1.5-entmax  p_i = max(z_i / 2 - tau, 0)^2     half way to softmax (Peters, Niculae & Martins 2019)

with the one tau for which p sums to 1. The gradient of either is that of softmax restricted to the support: with
s_i = dp_i/dz_i at fixed tau (1 on the support, or sqrt(p_i)), dz = s * (dp - sum(s dp) / sum(s)).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from megareward.control.config import Attention
from megareward.types import Float, Tensor


def _restricted_softmax_gradient(slope: Tensor, dp: Tensor) -> Tensor:
    """The common backward pass: move `dp` along the support, weighted by `slope`, keeping the sum of p at 1."""
    mean = (slope * dp).sum(-1, keepdim=True) / slope.sum(-1, keepdim=True)
    return slope * (dp - mean)


class _Sparsemax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        z = z - z.amax(-1, keepdim=True)  # the same p, and sums that lose no digits
        largest = z.sort(-1, descending=True).values
        k = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
        total = largest.cumsum(-1)
        size = (1 + k * largest > total).sum(-1, keepdim=True)  # of the support, at least 1
        tau = (total.gather(-1, size - 1) - 1) / size
        p = (z - tau).clamp(min=0)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dp: Tensor) -> Tensor:
        (p,) = ctx.saved_tensors
        return _restricted_softmax_gradient((p > 0).to(dp.dtype), dp)


class _Entmax15(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        z = (z - z.amax(-1, keepdim=True)) / 2
        largest = z.sort(-1, descending=True).values
        k = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
        mean = largest.cumsum(-1) / k
        spread = (largest**2).cumsum(-1) - k * mean**2
        # tau of a support of the k largest solves sum (z - tau)^2 = 1; it is real as long as their spread is below 1.
        taus = mean - ((1 - spread) / k).clamp(min=0).sqrt()
        size = (taus <= largest).sum(-1, keepdim=True)
        p = (z - taus.gather(-1, size - 1)).clamp(min=0) ** 2
        ctx.save_for_backward(p)
        return p

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dp: Tensor) -> Tensor:
        (p,) = ctx.saved_tensors
        return _restricted_softmax_gradient(p.sqrt(), dp)


def sparsemax(z: Float[Tensor, "*B n"]) -> Float[Tensor, "*B n"]:
    """The point of the probability simplex nearest to z; used in Eq. 3 and Eq. 8."""
    return _Sparsemax.apply(z)


def entmax15(z: Float[Tensor, "*B n"]) -> Float[Tensor, "*B n"]:
    """1.5-entmax: sparse like sparsemax, smooth like softmax."""
    return _Entmax15.apply(z)


def softmax(z: Float[Tensor, "*B n"]) -> Float[Tensor, "*B n"]:
    return z.softmax(-1)


ATTENTIONS: dict[Attention, Callable[[Tensor], Tensor]] = {
    "sparsemax": sparsemax,
    "softmax": softmax,
    "entmax15": entmax15,
}
