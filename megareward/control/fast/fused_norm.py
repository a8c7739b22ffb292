"""BatchNorm + LeakyReLU in Triton, with as few passes over the data as possible.

x is (M, K) with K = positions * C; column k belongs to channel k % C. Forward reads x twice and writes y, backward
reads x and dy twice and writes dx: the least without fusing into the matrix products. Sums are kept in float32, and
partial sums are added in a fixed order (no atomics), so the same input gives the same bits. Equal to the plain form in
layers.py up to rounding: tests compare them on a GPU, or on a CPU under TRITON_INTERPRET=1.
"""

# Triton's language has no types, and a machine without a GPU has no Triton:
# mypy: disable-error-code="no-untyped-def, import-not-found"

from typing import Any

import torch
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable

from megareward.types import Float, Tensor

VARYING = ["M", "rows", "R"]
"""Sizes that change from batch to batch: no kernel is compiled anew for them."""


@triton.jit(do_not_specialize=VARYING)
def _forward_sums(x, origin, sums, M, K, rows, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    """Per column: the sums of (x - origin) and its square over one band of rows. The origin avoids cancellation."""
    k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    at = tl.load(origin + k, mask=k < K, other=0.0).to(tl.float32)
    total = tl.zeros((BLOCK_M, BLOCK_K), tl.float32)
    squares = tl.zeros((BLOCK_M, BLOCK_K), tl.float32)
    start = tl.program_id(0).to(tl.int64) * rows
    for r in range(0, rows, BLOCK_M):
        m = start + r + tl.arange(0, BLOCK_M)
        inside = (m < M)[:, None] & (k < K)[None, :]
        v = tl.load(x + m[:, None] * K + k[None, :], mask=inside, other=0.0).to(tl.float32)
        v = tl.where(inside, v - at[None, :], 0.0)
        total += v
        squares += v * v
    out = sums + tl.program_id(0) * 2 * K + k
    tl.store(out, tl.sum(total, 0), mask=k < K)
    tl.store(out + K, tl.sum(squares, 0), mask=k < K)


@triton.jit(do_not_specialize=VARYING)
def _forward_statistics(
    sums, origin, weight, bias, running_mean, running_var, out, M, K, C, P, R, momentum, eps,
    BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Per channel: mean, 1/std, and the scale and shift that normalise. Updates the running statistics."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    p = tl.arange(0, BLOCK_P)
    inside = (p < P)[:, None] & (c < C)[None, :]
    k = p[:, None] * C + c[None, :]
    total = tl.zeros((BLOCK_P, BLOCK_C), tl.float32)
    squares = tl.zeros((BLOCK_P, BLOCK_C), tl.float32)
    for r in range(R):
        total += tl.load(sums + r * 2 * K + k, mask=inside, other=0.0)
        squares += tl.load(sums + r * 2 * K + K + k, mask=inside, other=0.0)
    total = total / M
    at = total + tl.load(origin + k, mask=inside, other=0.0).to(tl.float32)  # mean of each column
    mean = tl.sum(at, 0) / P
    between = at - mean[None, :]
    var = tl.sum(tl.where(inside, squares / M - total * total + between * between, 0.0), 0) / P
    var = tl.maximum(var, 0.0)
    rstd = 1.0 / tl.sqrt(var + eps)
    here = c < C
    scale = tl.load(weight + c, mask=here, other=0.0) * rstd
    tl.store(out + c, mean, mask=here)
    tl.store(out + C + c, rstd, mask=here)
    tl.store(out + 2 * C + c, scale, mask=here)
    tl.store(out + 3 * C + c, tl.load(bias + c, mask=here, other=0.0) - mean * scale, mask=here)
    n = M * 1.0 * P
    old_mean = tl.load(running_mean + c, mask=here, other=0.0)
    old_var = tl.load(running_var + c, mask=here, other=0.0)
    tl.store(running_mean + c, old_mean + momentum * (mean - old_mean), mask=here)
    tl.store(running_var + c, old_var + momentum * (var * (n / (n - 1.0)) - old_var), mask=here)


@triton.jit(do_not_specialize=VARYING)
def _forward_apply(x, statistics, y, M, K, C, leak, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    scale = tl.load(statistics + 2 * C + k % C)
    shift = tl.load(statistics + 3 * C + k % C)
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    inside = (m < M)[:, None] & (k < K)[None, :]
    at = m[:, None] * K + k[None, :]
    z = tl.load(x + at, mask=inside, other=0.0).to(tl.float32) * scale[None, :] + shift[None, :]
    tl.store(y + at, tl.where(z > 0, z, leak * z).to(y.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=VARYING)
def _backward_sums(x, dy, statistics, sums, M, K, C, leak, rows, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    """Per column: the sums of dz and dz * (x - mean) over one band of rows, z being the argument of LeakyReLU."""
    k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    mean = tl.load(statistics + k % C)
    scale = tl.load(statistics + 2 * C + k % C)
    shift = tl.load(statistics + 3 * C + k % C)
    total = tl.zeros((BLOCK_M, BLOCK_K), tl.float32)
    weighted = tl.zeros((BLOCK_M, BLOCK_K), tl.float32)
    start = tl.program_id(0).to(tl.int64) * rows
    for r in range(0, rows, BLOCK_M):
        m = start + r + tl.arange(0, BLOCK_M)
        inside = (m < M)[:, None] & (k < K)[None, :]
        at = m[:, None] * K + k[None, :]
        v = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        dz = tl.load(dy + at, mask=inside, other=0.0).to(tl.float32)
        dz = tl.where(v * scale[None, :] + shift[None, :] > 0, dz, leak * dz)
        total += dz
        weighted += dz * (v - mean[None, :])
    out = sums + tl.program_id(0) * 2 * K + k
    tl.store(out, tl.sum(total, 0), mask=k < K)
    tl.store(out + K, tl.sum(weighted, 0), mask=k < K)


@triton.jit(do_not_specialize=VARYING)
def _backward_statistics(
    sums, statistics, d_weight, d_bias, out, M, K, C, P, R, BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr
):
    """Per channel: the gradients of weight and bias, and the a, b of dx = scale * dz + a * x + b."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    p = tl.arange(0, BLOCK_P)
    inside = (p < P)[:, None] & (c < C)[None, :]
    k = p[:, None] * C + c[None, :]
    total = tl.zeros((BLOCK_P, BLOCK_C), tl.float32)
    weighted = tl.zeros((BLOCK_P, BLOCK_C), tl.float32)
    for r in range(R):
        total += tl.load(sums + r * 2 * K + k, mask=inside, other=0.0)
        weighted += tl.load(sums + r * 2 * K + K + k, mask=inside, other=0.0)
    here = c < C
    mean = tl.load(statistics + c, mask=here, other=0.0)
    rstd = tl.load(statistics + C + c, mask=here, other=0.0)
    scale = tl.load(statistics + 2 * C + c, mask=here, other=0.0)
    db = tl.sum(total, 0)
    dw = tl.sum(weighted, 0)
    n = M * 1.0 * P
    a = -scale * rstd * rstd * dw / n
    tl.store(d_weight + c, rstd * dw, mask=here)
    tl.store(d_bias + c, db, mask=here)
    tl.store(out + c, a, mask=here)
    tl.store(out + C + c, -scale * db / n - a * mean, mask=here)


@triton.jit(do_not_specialize=VARYING)
def _backward_apply(
    x, dy, statistics, ab, dx, M, K, C, leak, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    scale = tl.load(statistics + 2 * C + k % C)
    shift = tl.load(statistics + 3 * C + k % C)
    a = tl.load(ab + k % C)
    b = tl.load(ab + C + k % C)
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    inside = (m < M)[:, None] & (k < K)[None, :]
    at = m[:, None] * K + k[None, :]
    v = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    dz = tl.load(dy + at, mask=inside, other=0.0).to(tl.float32)
    dz = tl.where(v * scale[None, :] + shift[None, :] > 0, dz, leak * dz)
    dv = scale[None, :] * dz + a[None, :] * v + b[None, :]
    tl.store(dx + at, dv.to(dx.dtype.element_ty), mask=inside)


class _Shape:
    """How (M, K) is cut into programs."""

    def __init__(self, M: int, K: int, C: int) -> None:
        self.P = K // C  # positions of a map
        self.block_k = 128 if K % 128 == 0 else 64
        self.block_m = 2048 // self.block_k
        columns = triton.cdiv(K, self.block_k)
        bands = max(1, min(512 // columns, triton.cdiv(M, 4 * self.block_m)))  # a few programs per multiprocessor
        self.rows = triton.cdiv(triton.cdiv(M, bands), self.block_m) * self.block_m
        self.bands = triton.cdiv(M, self.rows)
        self.sums_grid = (self.bands, columns)
        self.apply_grid = (triton.cdiv(M, self.block_m), columns)
        self.block_p = triton.next_power_of_2(self.P)
        self.block_c = max(1, min(triton.next_power_of_2(C), 2048 // self.block_p))
        self.statistics_grid = (triton.cdiv(C, self.block_c),)
        self.tile: dict[str, Any] = {"BLOCK_M": self.block_m, "BLOCK_K": self.block_k}
        self.channel_tile: dict[str, Any] = {"BLOCK_P": self.block_p, "BLOCK_C": self.block_c}


class _NormLeaky(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor, momentum: float, eps: float,
        leak: float,
    ) -> Tensor:  # fmt: skip
        x = x.contiguous()
        (M, K), C = x.shape, len(weight)
        cut = _Shape(M, K, C)
        sums = x.new_empty(cut.bands, 2, K, dtype=torch.float32)
        statistics = x.new_empty(4, C, dtype=torch.float32)  # mean, 1/std, scale, shift
        y = torch.empty_like(x)
        _forward_sums[cut.sums_grid](x, x, sums, M, K, cut.rows, **cut.tile)  # the first row is the origin
        _forward_statistics[cut.statistics_grid](
            sums, x, weight, bias, mean, var, statistics, M, K, C, cut.P, cut.bands, momentum, eps, **cut.channel_tile
        )
        _forward_apply[cut.apply_grid](x, statistics, y, M, K, C, leak, **cut.tile)
        ctx.save_for_backward(x, statistics)
        ctx.leak = leak
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, statistics = ctx.saved_tensors
        dy = dy.contiguous()
        (M, K), C = x.shape, statistics.shape[1]
        cut = _Shape(M, K, C)
        sums = x.new_empty(cut.bands, 2, K, dtype=torch.float32)
        d_weight, d_bias, ab = statistics.new_empty(C), statistics.new_empty(C), statistics.new_empty(2, C)
        dx = torch.empty_like(x)
        _backward_sums[cut.sums_grid](x, dy, statistics, sums, M, K, C, ctx.leak, cut.rows, **cut.tile)
        _backward_statistics[cut.statistics_grid](
            sums, statistics, d_weight, d_bias, ab, M, K, C, cut.P, cut.bands, **cut.channel_tile
        )
        _backward_apply[cut.apply_grid](x, dy, statistics, ab, dx, M, K, C, ctx.leak, **cut.tile)
        return dx, d_weight, d_bias, None, None, None, None, None


def norm_leaky(
    x: Float[Tensor, "M K"], weight: Float[Tensor, "C"], bias: Float[Tensor, "C"], running_mean: Float[Tensor, "C"],
    running_var: Float[Tensor, "C"], momentum: float, eps: float, leak: float,
) -> Float[Tensor, "M K"]:  # fmt: skip
    """`NormLeaky` in training mode; the running statistics are updated in place."""
    return _NormLeaky.apply(x, weight, bias, running_mean, running_var, momentum, eps, leak)
