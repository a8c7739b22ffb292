"""The product of pairs, the sum of Eq. 6 and the errors of sources in Triton; pairs.py has the plain forms.

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
    codes, offsets, seen, chosen, out, M, F, HW, HAS_SEEN: tl.constexpr, ALL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    f = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    pair = m if ALL else tl.load(chosen + m, mask=m < M, other=0)
    source = pair // (HW * HW) * HW + pair % HW
    offset = pair % (HW * HW)
    inside = (m < M)[:, None] & (f < F)[None, :]
    code = tl.load(codes + source[:, None] * F + f[None, :], mask=inside, other=0.0).to(tl.float32)
    step = tl.load(offsets + offset[:, None] * F + f[None, :], mask=inside, other=0.0).to(tl.float32)
    product = code * step
    if HAS_SEEN:
        product *= tl.load(seen + (pair // HW)[:, None] * F + f[None, :], mask=inside, other=0.0).to(tl.float32)
    tl.store(out + m[:, None] * F + f[None, :], product.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["N", "per_chunk"])
def _product_backward(
    d_out, codes, offsets, seen, row_of_pair, d_codes, d_offsets, N, F, HW, per_chunk, HAS_SEEN: tl.constexpr,
    ALL: tl.constexpr, BLOCK_TO: tl.constexpr, BLOCK_F: tl.constexpr,
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
        if HAS_SEEN:
            d *= tl.load(seen + (n * HW + to[:, None]) * F + f[None, :], mask=inside, other=0.0).to(tl.float32)
        at = (n * HW + source) * F + f
        tl.store(d_codes + at, tl.sum(d * step, 0).to(d_codes.dtype.element_ty), mask=f < F)
        total += d * tl.load(codes + at, mask=f < F, other=0.0).to(tl.float32)[None, :]
    out = d_offsets + ((tl.program_id(2) * HW + to[:, None]) * HW + source) * F + f[None, :]
    tl.store(out, total, mask=inside)


@triton.jit
def _seen_backward(
    d_out, codes, offsets, row_of_pair, d_seen, F, HW, ALL: tl.constexpr, BLOCK_FROM: tl.constexpr,
    BLOCK_F: tl.constexpr,
):  # fmt: skip
    """One sample: sum over `from` for the code of each cell `to`."""
    n = tl.program_id(0).to(tl.int64)
    f = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    source = tl.arange(0, BLOCK_FROM)
    inside = (source < HW)[:, None] & (f < F)[None, :]
    code = tl.load(codes + (n * HW + source[:, None]) * F + f[None, :], mask=inside, other=0.0).to(tl.float32)
    for to in range(HW):
        step = tl.load(offsets + (to * HW + source[:, None]) * F + f[None, :], mask=inside, other=0.0).to(tl.float32)
        pair = (n * HW + to) * HW + source
        row = pair if ALL else tl.load(row_of_pair + pair, mask=source < HW, other=-1).to(tl.int64)
        d = tl.load(d_out + row[:, None] * F + f[None, :], mask=inside & (row >= 0)[:, None], other=0.0).to(tl.float32)
        total = tl.sum(d * code * step, 0)
        tl.store(d_seen + (n * HW + to) * F + f, total.to(d_seen.dtype.element_ty), mask=f < F)


class _PairProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, codes: Tensor, offsets: Tensor, seen: Tensor | None, pairs: Pairs) -> Tensor:
        codes, offsets = codes.contiguous(), offsets.contiguous()
        seen = None if seen is None else seen.contiguous()
        (N, HW, F), rows = codes.shape, pairs.rows
        M = N * HW * HW if rows is None else len(rows)
        out = codes.new_empty(M, F)
        block = {"BLOCK_M": 8, "BLOCK_F": min(256, triton.next_power_of_2(F))}
        grid = (triton.cdiv(M, block["BLOCK_M"]), triton.cdiv(F, block["BLOCK_F"]))
        given = {"HAS_SEEN": seen is not None, "ALL": rows is None}
        _product[grid](codes, offsets, seen, rows, out, M, F, HW, **given, **block)
        ctx.save_for_backward(codes, offsets, seen)
        ctx.pairs = pairs
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        (codes, offsets, seen), rows = ctx.saved_tensors, ctx.pairs.rows
        (N, HW, F), d_out, everything = codes.shape, d_out.contiguous(), rows is None
        row_of_pair = None
        if rows is not None:
            row_of_pair = torch.full((N * HW * HW,), -1, dtype=torch.int32, device=codes.device)
            row_of_pair[rows] = torch.arange(len(rows), dtype=torch.int32, device=codes.device)
        cells = triton.next_power_of_2(HW)
        block_f = min(triton.next_power_of_2(F), max(16, 2048 // cells))
        per_chunk = max(8, triton.cdiv(N, 16))
        chunks, blocks = triton.cdiv(N, per_chunk), triton.cdiv(F, block_f)
        d_codes, d_offsets = torch.empty_like(codes), codes.new_empty(chunks, HW, HW, F, dtype=torch.float32)
        _product_backward[(HW, blocks, chunks)](
            d_out, codes, offsets, seen, row_of_pair, d_codes, d_offsets, N, F, HW, per_chunk,
            HAS_SEEN=seen is not None, ALL=everything, BLOCK_TO=cells, BLOCK_F=block_f,
        )  # fmt: skip
        d_seen = None
        if seen is not None:
            d_seen = torch.empty_like(seen)
            _seen_backward[(N, blocks)](
                d_out, codes, offsets, row_of_pair, d_seen, F, HW, ALL=everything, BLOCK_FROM=cells, BLOCK_F=block_f
            )
        return d_codes, d_offsets.sum(0).to(offsets.dtype), d_seen, None


def pair_product(
    codes: Float[Tensor, "N HW F"],
    offsets: Float[Tensor, "HW HW F"],
    pairs: Pairs,
    seen: Float[Tensor, "N HW F"] | None = None,
) -> Float[Tensor, "M F"]:
    """`pairs.pair_product`: codes[n, from] * offsets[to, from] * seen[n, to], one row per pair, rounded once."""
    return _PairProduct.apply(codes, offsets, seen, pairs)


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


@triton.jit
def _source_errors(drawn, wanted, scale, out, pixels, HW, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """One drawn cell and a few of its sources; `drawn` and `out` have one row per source, `wanted` one per cell."""
    to = tl.program_id(0).to(tl.int64)
    source = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    p = tl.arange(0, BLOCK)
    row = to * HW + source
    inside = (source < HW)[:, None] & (p < pixels)[None, :]
    value = tl.load(drawn + row[:, None] * pixels + p[None, :], mask=inside, other=0.0).to(tl.float32)
    value = 2.0 * tl.sigmoid(2.0 * value) - 1.0  # tanh
    goal = tl.load(wanted + to * pixels + p, mask=p < pixels, other=0.0)
    error = tl.load(scale) * value - goal[None, :]
    tl.store(out + row, tl.sum(error * error, 1), mask=source < HW)  # outside, both sides of the difference are 0


@triton.jit
def _source_errors_backward(
    drawn, wanted, scale, d_out, d_drawn, pixels, HW, ROWS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    to = tl.program_id(0).to(tl.int64)
    source = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    p = tl.arange(0, BLOCK)
    row = to * HW + source
    inside = (source < HW)[:, None] & (p < pixels)[None, :]
    at = row[:, None] * pixels + p[None, :]
    value = tl.load(drawn + at, mask=inside, other=0.0).to(tl.float32)
    value = 2.0 * tl.sigmoid(2.0 * value) - 1.0
    goal = tl.load(wanted + to * pixels + p, mask=p < pixels, other=0.0)
    factor = tl.load(scale)
    slope = 2.0 * factor * tl.load(d_out + row, mask=source < HW, other=0.0)
    d_value = slope[:, None] * (factor * value - goal[None, :]) * (1.0 - value * value)
    tl.store(d_drawn + at, d_value.to(d_drawn.dtype.element_ty), mask=inside)


def _tiles(cells: int, HW: int, pixels: int) -> tuple[tuple[int, int], dict[str, int]]:
    """Grid and sizes of both kernels: whole rows of pixels, so many that a program has about 4096 numbers."""
    block = triton.next_power_of_2(pixels)
    rows = min(triton.next_power_of_2(HW), max(1, 4096 // block))
    return (cells, triton.cdiv(HW, rows)), {"ROWS": rows, "BLOCK": block}


class _SourceErrors(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, drawn: Tensor, wanted: Tensor, scale: Tensor) -> Tensor:
        (N, K, pixels), drawn, wanted = wanted.shape, drawn.contiguous(), wanted.float().contiguous()
        HW = len(drawn) // (N * K)
        out = drawn.new_empty(N, K, HW, dtype=torch.float32)
        grid, sizes = _tiles(N * K, HW, pixels)
        _source_errors[grid](drawn, wanted, scale, out, pixels, HW, **sizes)
        ctx.save_for_backward(drawn, wanted, scale)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        drawn, wanted, scale = ctx.saved_tensors
        (N, K, HW), pixels, d_drawn = d_out.shape, wanted.shape[-1], torch.empty_like(drawn)
        grid, sizes = _tiles(N * K, HW, pixels)
        _source_errors_backward[grid](drawn, wanted, scale, d_out.contiguous(), d_drawn, pixels, HW, **sizes)
        return d_drawn, None, None


def source_errors(
    drawn: Float[Tensor, "M pixels"], wanted: Float[Tensor, "N K pixels"], scale: Float[Tensor, ""] | float
) -> Float[Tensor, "N K HW"]:
    """`pairs.source_errors`, differentiable in `drawn` alone."""
    if not isinstance(scale, torch.Tensor):
        scale = torch.full((), scale, device=drawn.device)  # filled on the GPU: a copy to it could not be recorded
    return _SourceErrors.apply(drawn, wanted, scale.float())
