"""The layers that the tables of Phi and Gamma share, on flat batches.

Everything between layers is a matrix (M, size): M cells or pairs of cells, one row each. A map of h x w positions and C
features lies in its row as (h, w, C), so BatchNorm per feature map is BatchNorm over the last axis of (M*h*w, C).
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from megareward.control.grid import Grid, Layer
from megareward.types import Float, Tensor

LEAK = 0.01
"""The paper's leaky rate."""


def padded(size: int) -> int:
    """The next multiple of 8: GPUs multiply rows aligned to 16 bytes several times faster than others."""
    return size + -size % 8


class Fusable(nn.Module):
    """A module that can do its part in Triton kernels instead of PyTorch's own."""

    fused: bool = False


class NormLeaky(Fusable):
    """BatchNorm, then LeakyReLU: what follows every hidden layer.

    `fused` computes the same in one Triton kernel per pass over the data, in training mode on a GPU.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.momentum, self.eps = momentum, eps

    def forward(self, x: Float[Tensor, "M positions_times_C"]) -> Float[Tensor, "M positions_times_C"]:
        statistics = (self.running_mean, self.running_var)
        if self.fused and self.training:
            from megareward.control.fast.fused_norm import norm_leaky  # needs Triton, which a CPU may not have

            return norm_leaky(x, self.weight, self.bias, *statistics, self.momentum, self.eps, LEAK)
        rows = x.reshape(-1, len(self.weight))  # (M * positions, C)
        y = F.batch_norm(rows, *statistics, self.weight, self.bias, self.training, self.momentum, self.eps)
        return F.leaky_relu(y, LEAK).reshape(x.shape)


class Convolution(nn.Module):
    """A convolution (or its transpose, which undoes the size) on flat rows.

    `dense` multiplies with the one matrix that the convolution is: 5 times the arithmetic for the paper's first
    deconvolution, but all of it in one large matrix product, which is what GPUs are fast at. On a CPU it is faster
    for the small cells of mini games only.
    """

    links: Tensor

    def __init__(self, layer: Layer, c_in: int, c_out: int, transposed: bool = False, bias: bool = False) -> None:
        super().__init__()
        kind = nn.ConvTranspose2d if transposed else nn.Conv2d
        self.conv = kind(c_in, c_out, layer.kernel, layer.stride, bias=bias)
        self.in_shape = (*(layer.out if transposed else layer.size), c_in)
        self.out_shape = (*(layer.size if transposed else layer.out), c_out)
        self.register_buffer("links", _links(layer, transposed), persistent=False)
        self.dense = False

    @property
    def n_in(self) -> int:
        return math.prod(self.in_shape)

    @property
    def n_out(self) -> int:
        return math.prod(self.out_shape)

    def forward(self, x: Float[Tensor, "M n_in"]) -> Float[Tensor, "M n_out"]:
        y = self._multiply(x) if self.dense else self._convolve(x)
        return y if self.conv.bias is None else y + self.conv.bias.repeat(self.n_out // len(self.conv.bias)).to(y.dtype)

    def _multiply(self, x: Tensor) -> Tensor:
        """x @ matrix. On a GPU both sides are `padded` (a cell of 21 x 21 pixels has 441); x may be already."""
        matrix = self.matrix()
        if not x.is_cuda:
            return x @ matrix
        rows, columns = padded(self.n_in) - self.n_in, padded(self.n_out) - self.n_out
        if x.shape[1] == self.n_in and rows:
            x = F.pad(x, (0, rows))
        y = x @ F.pad(matrix, (0, columns, 0, rows))
        return y[:, : self.n_out]

    def matrix(self) -> Float[Tensor, "n_in n_out"]:
        """The linear map that the convolution is: each entry is one weight of the kernel, or zero."""
        weight = self.conv.weight if isinstance(self.conv, nn.ConvTranspose2d) else self.conv.weight.transpose(0, 1)
        kernel = weight.flatten(2).permute(2, 0, 1).flatten(1)  # (kernel, c_in * c_out)
        (h, w, c_in), (out_h, out_w, c_out) = self.in_shape, self.out_shape
        entries = (self.links.to(kernel.dtype) @ kernel).reshape(h * w, out_h * out_w, c_in, c_out)
        return entries.transpose(1, 2).reshape(self.n_in, self.n_out)

    def _convolve(self, x: Tensor) -> Tensor:
        weight, stride = self.conv.weight, self.conv.stride
        maps = x.reshape(-1, *self.in_shape)  # (M, h, w, C)
        if isinstance(self.conv, nn.Conv2d):
            maps = F.conv2d(maps.permute(0, 3, 1, 2), weight, None, stride)
        elif self.conv.out_channels > 1:
            maps = F.conv_transpose2d(maps.permute(0, 3, 1, 2), weight, None, stride)
        else:  # PyTorch's own is twice as slow for a single output map on a CPU
            patches = maps.flatten(1, 2) @ weight.flatten(1)  # (M, h * w, kernel)
            maps = _Fold.apply(patches, self.out_shape[:2], self.conv.kernel_size, stride)
        return maps.permute(0, 2, 3, 1).reshape(len(x), -1)  # (M, C, h, w) -> (M, h * w * C)


class _Fold(torch.autograd.Function):
    """`F.fold` to a single map. Its own gradient copies pixel by pixel; a view of all windows is copied at once."""

    @staticmethod
    def forward(
        ctx: Any, patches: Tensor, size: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int]
    ) -> Float[Tensor, "M 1 h w"]:
        ctx.kernel, ctx.stride = kernel, stride
        return F.fold(patches.transpose(1, 2), size, kernel, stride=stride)

    @staticmethod
    def backward(ctx: Any, d_maps: Tensor) -> tuple[Tensor, None, None, None]:
        (k_h, k_w), (s_h, s_w) = ctx.kernel, ctx.stride
        windows = d_maps[:, 0].unfold(1, k_h, s_h).unfold(2, k_w, s_w)  # (M, h, w, k_h, k_w)
        return windows.flatten(3).flatten(1, 2), None, None, None


def _links(layer: Layer, transposed: bool) -> Float[Tensor, "positions kernel"]:
    """1 where a position of the input meets a position of the output through a place of the kernel.

    Rows run over (input position, output position), columns over the places of the kernel.
    """
    axes = []
    for size, out, kernel, stride in zip(layer.size, layer.out, layer.kernel, layer.stride, strict=True):
        pixel, window, place = torch.meshgrid(*map(torch.arange, (size, out, kernel)), indexing="ij")
        meets = (pixel == window * stride + place).float()  # (size, out, kernel)
        axes.append(meets.transpose(0, 1) if transposed else meets)
    h, w = axes
    return torch.einsum("iyk,jxl->ijyxkl", h, w).flatten(4).flatten(0, 3)


def widths(grid: Grid, first: int) -> list[int]:
    """Features of every convolution: `first`, then twice as many each time."""
    return [first * 2**i for i in range(len(grid.layers()))]


class Encoder(nn.Module):
    """Input 1 of the tables: a cell of `c_in` frames -> convolutions -> FC -> its code."""

    def __init__(self, grid: Grid, c_in: int, channels: int, features: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        n_flat = 0
        for layer, c_out in zip(grid.layers(), widths(grid, channels), strict=True):
            conv = Convolution(layer, c_in, c_out)
            layers += [conv, NormLeaky(c_out)]
            c_in, n_flat = c_out, conv.n_out
        # No bias before a BatchNorm: it would be subtracted again.
        self.layers = nn.Sequential(*layers, nn.Linear(n_flat, features, bias=False), NormLeaky(features))

    def forward(self, cells: Float[Tensor, "M n_in"]) -> Float[Tensor, "M F"]:
        return self.layers(cells)


class Decoder(nn.Module):
    """The lower half of Phi's table: FC -> transposed convolutions -> the pixels of a cell, in [-1, 1]."""

    def __init__(self, grid: Grid, features: int, channels: int) -> None:
        super().__init__()
        convs, c_in = list(grid.layers()), widths(grid, channels)
        c_out = [1, *c_in[:-1]]  # the encoder's features in reverse, down to one grey frame
        h, w = convs[-1].out
        n_flat = h * w * c_in[-1]
        layers: list[nn.Module] = [nn.Linear(features, n_flat, bias=False), NormLeaky(n_flat)]
        for i in reversed(range(len(convs))):
            last = i == 0
            layers.append(Convolution(convs[i], c_in[i], c_out[i], transposed=True, bias=last))
            if not last:
                layers.append(NormLeaky(c_out[i]))
        self.layers = nn.Sequential(*layers)

    def forward(self, pairs: Float[Tensor, "M F"]) -> Float[Tensor, "M pixels"]:
        """Before the tanh, which is taken where the pixels are used."""
        return self.layers(pairs)


def full_precision(x: Tensor) -> Tensor:
    """Attention and losses are computed in float32 at least, whatever the matrix products used."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


SMALL = 2**17
"""Entries of a matrix up to which a dense product beats a convolution on a CPU."""


def choose_execution(model: nn.Module, *, dense: bool | None, fused: bool) -> None:
    """Switch every layer of `model` to the given form. The numbers stay the same up to rounding.

    `dense` None chooses what is fastest on a CPU: convolutions with a small matrix are dense, the others are not.
    """
    for module in model.modules():
        if isinstance(module, Convolution):
            module.dense = module.n_in * module.n_out <= SMALL if dense is None else dense
        if isinstance(module, Fusable):
            module.fused = fused
