"""From scores to a distribution over the last axis: sparsemax (Martins & Astudillo 2016) or softmax.

Sparsemax subtracts a threshold tau and cuts at zero, p_i = max(z_i - tau, 0), with the one tau for which p sums to 1:
the distribution nearest to z, in which most cells get exactly nothing.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from megareward.control.config import Attention
from megareward.types import Float, Tensor


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
        """`dp` on the support, less its mean there: the sum of p stays 1."""
        (p,) = ctx.saved_tensors
        support = (p > 0).to(dp.dtype)
        mean = (support * dp).sum(-1, keepdim=True) / support.sum(-1, keepdim=True)
        return support * (dp - mean)


def sparsemax(z: Float[Tensor, "*B n"]) -> Float[Tensor, "*B n"]:
    """The point of the probability simplex nearest to z; used in Eq. 3 and Eq. 8."""
    return _Sparsemax.apply(z)


def softmax(z: Float[Tensor, "*B n"]) -> Float[Tensor, "*B n"]:
    return z.softmax(-1)


ATTENTIONS: dict[Attention, Callable[[Tensor], Tensor]] = {"sparsemax": sparsemax, "softmax": softmax}
