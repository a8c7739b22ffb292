"""What the models see of a frame, and the last layer of Gamma, in one Triton kernel each."""

# Triton's language has no types, and a machine without a GPU has no Triton:
# mypy: disable-error-code="no-untyped-def, import-not-found"

import torch
import triton
import triton.language as tl

from megareward.control.grid import Grid
from megareward.control.layers import LEAK, padded
from megareward.types import Float, Tensor, UInt8


@triton.jit
def _rows(
    frames, mean, std, noise, out, strength, stride_n, stride_k, columns, K, PX_H, PX_W, CELL_H, CELL_W, W, HW,
    HAS_NOISE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One cell of one sample: row n * HW + cell, its pixels in (h, w, k) order, zeros behind them."""
    row = tl.program_id(0).to(tl.int64)
    n, cell = row // HW, row % HW
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < CELL_H * CELL_W * K
    k, place = column % K, column // K
    pixel = (cell // W * CELL_H + place // CELL_W) * PX_W + cell % W * CELL_W + place % CELL_W
    value = tl.load(frames + n * stride_n + k * stride_k + pixel, mask=inside, other=0).to(tl.float32)
    value = (value - tl.load(mean + pixel, mask=inside, other=0.0)) / tl.load(std)
    if HAS_NOISE:
        newest = inside & (k == K - 1)
        value += strength * tl.load(noise + n * PX_H * PX_W + pixel, mask=newest, other=0.0)
    tl.store(out + row * columns + column, tl.where(inside, value, 0.0).to(out.dtype.element_ty), mask=column < columns)


def cell_rows(
    frames: UInt8[Tensor, "N K px_h px_w"],
    mean: Float[Tensor, "px_h px_w"],
    std: Float[Tensor, ""],
    noise: Float[Tensor, "N px_h px_w"] | None,
    strength: float,
    grid: Grid,
    dtype: torch.dtype,
) -> Float[Tensor, "N HW columns"]:
    """`observation.cell_rows` of (frames - mean) / std, with `strength` times the noise on the newest frame. Rows are
    `padded` with zeros."""
    N, K, PX_H, PX_W = frames.shape
    if not frames[0, 0].is_contiguous():
        frames = frames.contiguous()
    columns = padded(grid.cell_h * grid.cell_w * K)
    out = torch.empty(N, grid.n_cells, columns, dtype=dtype, device=frames.device)
    block = 512
    _rows[(N * grid.n_cells, triton.cdiv(columns, block))](
        frames, mean, std, noise, out, strength, frames.stride(0), frames.stride(1), columns, K, PX_H, PX_W,
        grid.cell_h, grid.cell_w, grid.W, grid.n_cells, HAS_NOISE=noise is not None, BLOCK=block,
    )  # fmt: skip
    return out


@triton.jit
def _scores(hidden, weight, out, M, G, LEAK: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_G: tl.constexpr):
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    g = tl.arange(0, BLOCK_G)
    inside = (m < M)[:, None] & (g < G)[None, :]
    value = tl.load(hidden + m[:, None] * G + g[None, :], mask=inside, other=0.0).to(tl.float32)
    value = tl.where(value > 0, value, LEAK * value)
    value = 2.0 * tl.sigmoid(2.0 * value) - 1.0  # tanh
    total = tl.sum(value * tl.load(weight + g, mask=g < G, other=0.0).to(tl.float32)[None, :], 1)
    tl.store(out + m, total, mask=m < M)


def scores(hidden: Float[Tensor, "M G"], weight: Float[Tensor, "G"]) -> Float[Tensor, "M"]:
    """tanh(leaky_relu(hidden)) @ weight, in float32."""
    M, G = hidden.shape
    out = torch.empty(M, dtype=torch.float32, device=hidden.device)
    block = {"BLOCK_M": 8, "BLOCK_G": triton.next_power_of_2(G)}
    _scores[(triton.cdiv(M, block["BLOCK_M"]),)](hidden, weight, out, M, G, LEAK=LEAK, **block)
    return out
