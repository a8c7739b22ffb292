"""Pairs of cells (n, to, from): which ones are evaluated, their product, the sum over `from` in Eq. 6, their errors.

Rows follow the order of relation[n, to, from]. `fused` does the same in Triton kernels; see fused_pairs.py.
"""

from typing import NamedTuple

import torch

from megareward.control.layers import full_precision
from megareward.types import Float, Int, Tensor


class Pairs(NamedTuple):
    """M of the N * HW * HW pairs of cells, in order."""

    N: int
    HW: int
    rows: Int[Tensor, "M"] | None
    """Numbers of the chosen pairs, ascending: (n * HW + to) * HW + from. None stands for all."""

    @property
    def to(self) -> Int[Tensor, "M"]:
        """Number n * HW + to of each chosen pair."""
        assert self.rows is not None
        return torch.div(self.rows, self.HW, rounding_mode="floor")

    @property
    def source(self) -> Int[Tensor, "M"]:
        """Number n * HW + from of each chosen pair."""
        assert self.rows is not None
        n = torch.div(self.rows, self.HW * self.HW, rounding_mode="floor")
        return n * self.HW + self.rows % self.HW

    @property
    def offset(self) -> Int[Tensor, "M"]:
        """Number to * HW + from of each chosen pair."""
        assert self.rows is not None
        return self.rows % (self.HW * self.HW)


def all_pairs(N: int, HW: int) -> Pairs:
    return Pairs(N, HW, None)


def attended_pairs(relation: Float[Tensor, "N HW HW"]) -> Pairs:
    """The pairs whose attention is not exactly zero. Their number depends on the data: the host waits for a GPU."""
    N, HW, _ = relation.shape
    return Pairs(N, HW, relation.detach().flatten().nonzero().squeeze(1))


def pairs_towards(targets: Int[Tensor, "N K"], HW: int) -> Pairs:
    """Every source of K chosen cells of each sample; the cells in ascending order."""
    N = len(targets)
    to = torch.arange(N, device=targets.device)[:, None] * HW + targets  # (N, K)
    return Pairs(N, HW, (to[:, :, None] * HW + torch.arange(HW, device=targets.device)).flatten())


def pair_product(
    codes: Float[Tensor, "N HW F"],
    offsets: Float[Tensor, "HW HW F"],
    pairs: Pairs,
    fused: bool = False,
    seen: Float[Tensor, "N HW F"] | None = None,
) -> Float[Tensor, "M F"]:
    """codes[n, from] * offsets[to, from] and, if given, * seen[n, to]; one row per pair."""
    if fused:
        from megareward.control.fast import fused_pairs  # needs Triton, which a CPU may not have

        return fused_pairs.pair_product(codes, offsets, pairs, seen)
    if pairs.rows is None:
        product = codes[:, None] * offsets  # (N, 1, from, F) * (to, from, F)
        if seen is not None:  # in place where no gradient is needed: half of the time goes into new memory
            product = product * seen[:, :, None] if torch.is_grad_enabled() else product.mul_(seen[:, :, None])
        return product.flatten(0, 2)
    product = codes.flatten(0, 1).index_select(0, pairs.source) * offsets.flatten(0, 1).index_select(0, pairs.offset)
    return product if seen is None else product * seen.flatten(0, 1).index_select(0, pairs.to)


def blend(
    drawn: Float[Tensor, "M pixels"], relation: Float[Tensor, "N HW HW"], pairs: Pairs, fused: bool = False
) -> Float[Tensor, "N HW pixels"]:
    """Eq. 6: sum over `from` of relation[to, from] * tanh(drawn). Pairs left out have a relation of zero."""
    if fused:
        from megareward.control.fast import fused_pairs

        return fused_pairs.blend(drawn, relation, pairs)
    values = torch.tanh(full_precision(drawn))
    N, HW, pixels = pairs.N, pairs.HW, drawn.shape[1]
    if pairs.rows is None:
        return torch.einsum("nij,nijp->nip", relation, values.reshape(N, HW, HW, pixels))
    weighted = relation.flatten().index_select(0, pairs.rows)[:, None] * values  # (M, pixels)
    return values.new_zeros(N * HW, pixels).index_add(0, pairs.to, weighted).reshape(N, HW, pixels)


def source_errors(
    drawn: Float[Tensor, "M pixels"],
    wanted: Float[Tensor, "N K pixels"],
    scale: Float[Tensor, ""] | float = 1.0,
    fused: bool = False,
) -> Float[Tensor, "N K HW"]:
    """Squared error of each source's own drawing: sum over pixels of (scale * tanh(drawn) - wanted)^2.

    `drawn` has one row for every source of K cells of each sample. `wanted` and `scale` are data, without a gradient.
    """
    if fused:
        from megareward.control.fast import fused_pairs

        return fused_pairs.source_errors(drawn, wanted, scale)
    N, K, pixels = wanted.shape
    guesses = scale * torch.tanh(full_precision(drawn))
    return (guesses.reshape(N, K, -1, pixels) - wanted[:, :, None]).square().sum(-1)
