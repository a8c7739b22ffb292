"""The product of pairs and the sum of Eq. 6 in Triton, one pass over the pairs each; pairs.py has the plain forms.

Sums are kept in float32 and added in a fixed order (no atomics), so the same input gives the same bits.
"""

# Triton's language has no types, and a machine without a GPU has no Triton:
# mypy: disable-error-code="no-untyped-def, import-not-found"

from typing import Any

import torch
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable

from megareward.control.pairs import Pairs
from megareward.types import Float, Tensor


@triton.jit(do_not_specialize=["M"])
def _product(
    codes, offsets, chosen, out, M, F, HW, ALL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_F: tl.constexpr
):  # fmt: skip
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    f = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    pair = m if ALL else tl.load(chosen + m, mask=m < M, other=0)
    source = pair // (HW * HW) * HW + pair % HW
    offset = pair % (HW * HW)
    inside = (m < M)[:, None] & (f < F)[None, :]
    code = tl.load(codes + source[:, None] * F + f[None, :], mask=inside, other=0.0).to(tl.float32)
    step = tl.load(offsets + offset[:, None] * F + f[None, :], mask=inside, other=0.0).to(tl.float32)
    tl.store(out + m[:, None] * F + f[None, :], (code * step).to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["N", "per_chunk"])
def _product_backward(
    d_out, codes, offsets, row_of_pair, d_codes, d_offsets, N, F, HW, per_chunk, ALL: tl.constexpr,
    BLOCK_TO: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    """One source cell and a chunk of samples: sum over `to` for the code, sum over samples for the offsets."""
    source = tl.program_id(0)
    f = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    to = tl.arange(0, BLOCK_TO)
    inside = (to < HW)[:, None] & (f < F)[None, :]
    step = tl.load(offsets + (to[:, None] * HW + source) * F + f[None, :], mask=inside, other=0.0).to(tl.float32)
    total = tl.zeros((BLOCK_TO, BLOCK_F), tl.float32)
    start = tl.program_id(2).to(tl.int64) * per_chunk
    for n in range(start, tl.minimum(start + per_chunk, N)):
        pair = (n * HW + to) * HW + source
        row = pair if ALL else tl.load(row_of_pair + pair, mask=to < HW, other=-1).to(tl.int64)
        d = tl.load(d_out + row[:, None] * F + f[None, :], mask=inside & (row >= 0)[:, None], other=0.0).to(tl.float32)
        at = (n * HW + source) * F + f
        tl.store(d_codes + at, tl.sum(d * step, 0).to(d_codes.dtype.element_ty), mask=f < F)
        total += d * tl.load(codes + at, mask=f < F, other=0.0).to(tl.float32)[None, :]
    out = d_offsets + ((tl.program_id(2) * HW + to[:, None]) * HW + source) * F + f[None, :]
    tl.store(out, total, mask=inside)


class _PairProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, codes: Tensor, offsets: Tensor, pairs: Pairs) -> Tensor:
        codes, offsets = codes.contiguous(), offsets.contiguous()
        (N, HW, F), everything = codes.shape, pairs.rows is None
        M = N * HW * HW if pairs.rows is None else len(pairs.rows)
        out = codes.new_empty(M, F)
        block = {"BLOCK_M": 8, "BLOCK_F": min(256, triton.next_power_of_2(F))}
        grid = (triton.cdiv(M, block["BLOCK_M"]), triton.cdiv(F, block["BLOCK_F"]))
        _product[grid](codes, offsets, pairs.rows, out, M, F, HW, ALL=everything, **block)
        ctx.save_for_backward(codes, offsets)
        ctx.pairs = pairs
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        (codes, offsets), pairs = ctx.saved_tensors, ctx.pairs
        N, HW, F = codes.shape
        row_of_pair = None
        if pairs.rows is not None:
            row_of_pair = torch.full((N * HW * HW,), -1, dtype=torch.int32, device=codes.device)
            row_of_pair[pairs.rows] = torch.arange(len(pairs.rows), dtype=torch.int32, device=codes.device)
        block = {"BLOCK_TO": triton.next_power_of_2(HW)}
        block["BLOCK_F"] = min(triton.next_power_of_2(F), max(16, 2048 // block["BLOCK_TO"]))
        per_chunk = max(8, triton.cdiv(N, 16))
        chunks = triton.cdiv(N, per_chunk)
        d_codes, d_offsets = torch.empty_like(codes), codes.new_empty(chunks, HW, HW, F, dtype=torch.float32)
        _product_backward[(HW, triton.cdiv(F, block["BLOCK_F"]), chunks)](
            d_out.contiguous(), codes, offsets, row_of_pair, d_codes, d_offsets, N, F, HW, per_chunk,
            ALL=row_of_pair is None, **block,
        )  # fmt: skip
        return d_codes, d_offsets.sum(0).to(offsets.dtype), None


def pair_product(
    codes: Float[Tensor, "N HW F"], offsets: Float[Tensor, "HW HW F"], pairs: Pairs
) -> Float[Tensor, "M F"]:
    """`pairs.pair_product`: codes[n, from] * offsets[to, from], one row per pair."""
    return _PairProduct.apply(codes, offsets, pairs)


@triton.jit
def _blend(drawn, weights, starts, out, pixels, BLOCK: tl.constexpr):
    to = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for m in range(tl.load(starts + to), tl.load(starts + to + 1)):
        value = tl.load(drawn + m * pixels + p, mask=p < pixels, other=0.0).to(tl.float32)
        total += tl.load(weights + m) * (2.0 * tl.sigmoid(2.0 * value) - 1.0)  # tanh
    tl.store(out + to * pixels + p, total, mask=p < pixels)


@triton.jit
def _blend_backward(drawn, weights, starts, d_out, d_drawn, d_weights, pixels, BLOCK: tl.constexpr):
    to = tl.program_id(0).to(tl.int64)
    p = tl.arange(0, BLOCK)
    d = tl.load(d_out + to * pixels + p, mask=p < pixels, other=0.0)
    for m in range(tl.load(starts + to), tl.load(starts + to + 1)):
        at = m * pixels + p
        value = tl.load(drawn + at, mask=p < pixels, other=0.0).to(tl.float32)
        value = 2.0 * tl.sigmoid(2.0 * value) - 1.0
        d_value = tl.load(weights + m) * (1.0 - value * value) * d
        tl.store(d_drawn + at, d_value.to(d_drawn.dtype.element_ty), mask=p < pixels)
        tl.store(d_weights + m, tl.sum(value * d, 0))


class _Blend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, drawn: Tensor, relation: Tensor, pairs: Pairs) -> Tensor:
        N, HW, pixels = pairs.N, pairs.HW, drawn.shape[1]
        drawn, weights = drawn.contiguous(), relation.flatten().float()
        starts = torch.arange(N * HW + 1, device=drawn.device) * HW
        if pairs.rows is not None:
            weights = weights.index_select(0, pairs.rows)
            starts = torch.searchsorted(pairs.rows, starts)
        out = drawn.new_empty(N, HW, pixels, dtype=torch.float32)
        block = triton.next_power_of_2(pixels)
        _blend[(N * HW, 1)](drawn, weights, starts, out, pixels, BLOCK=block)
        ctx.save_for_backward(drawn, weights, starts)
        ctx.pairs = pairs
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        (drawn, weights, starts), (N, HW, rows) = ctx.saved_tensors, ctx.pairs
        pixels = drawn.shape[1]
        d_drawn, d_weights = torch.empty_like(drawn), torch.empty_like(weights)
        _blend_backward[(N * HW,)](
            drawn, weights, starts, d_out.contiguous(), d_drawn, d_weights, pixels,
            BLOCK=triton.next_power_of_2(pixels),
        )  # fmt: skip
        if rows is not None:
            d_weights = d_weights.new_zeros(N * HW * HW).index_copy_(0, rows, d_weights)
        return d_drawn, d_weights.reshape(N, HW, HW), None


def blend(
    drawn: Float[Tensor, "M pixels"], relation: Float[Tensor, "N HW HW"], pairs: Pairs
) -> Float[Tensor, "N HW pixels"]:
    """`pairs.blend`: Eq. 6, the weighted sum of what the sources drew."""
    return _Blend.apply(drawn, relation, pairs)
