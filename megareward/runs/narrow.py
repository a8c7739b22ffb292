"""Tensors in 16 or 8 bits where that is safe, and back."""

import re

import torch

from megareward.types import Tensor

Tensors = dict[str, Tensor]
SMALL = 1_000
"""Tensors with fewer elements stay as they are: statistics, biases, heads with few outputs."""
HALF_LIMIT = 60_000.0
"""Tensors with larger values stay float32, since float16 ends near here."""
LARGE = 100_000
"""Matrices with at least this many elements may be stored in 8 bits each."""
ROW_SCALE = ".row_scale"
"""Ending of the name of a tensor that holds the scale of each row of an 8-bit matrix."""


def narrowed(tensors: Tensors, eight_bits: bool = False) -> tuple[Tensors, dict[str, str]]:
    """Large float32 tensors in 16 bits, and the types they had, by name.

    Weights keep 11 binary digits as float16. Moments of optimisers are bfloat16: their squares are far below the
    smallest float16, and a few digits of them are enough. Statistics of what was seen stay exact. `eight_bits`: very
    large matrices are rounded to 255 steps between minus and plus the largest number of each row.
    """
    small, types = dict(tensors), {}
    for name, tensor in tensors.items():
        if tensor.dtype == torch.float32 and tensor.numel() >= SMALL and not re.search(r"normaliser|scale\.", name):
            half = torch.bfloat16 if "optimiser" in name else torch.float16
            if eight_bits and tensor.dim() == 2 and tensor.numel() >= LARGE:
                largest = tensor.abs().amax(1, keepdim=True).clamp(min=1e-30)
                small[name], small[name + ROW_SCALE] = (tensor / largest * 127).round().to(torch.int8), largest / 127
                types[name] = "float32"
            elif half is torch.bfloat16 or float(tensor.abs().max()) < HALF_LIMIT:
                small[name], types[name] = tensor.to(half), "float32"
    return small, types


def widened(tensors: Tensors, types: dict[str, str]) -> Tensors:
    """Undo `narrowed`: the tensors in the types that they had."""
    whole = {name: t.float() if types.get(name) == "float32" else t for name, t in tensors.items()}
    for name in [name for name in whole if name.endswith(ROW_SCALE)]:
        whole[name.removesuffix(ROW_SCALE)] *= whole.pop(name)
    return whole


def in_files(tensors: Tensors, largest: int) -> list[Tensors]:
    """Split tensors, in order, into groups of at most so many bytes; a larger tensor gets a group of its own."""
    groups: list[Tensors] = [{}]
    size = 0
    for name, tensor in tensors.items():
        own = tensor.numel() * tensor.element_size()
        if groups[-1] and size + own > largest:
            groups.append({})
            size = 0
        groups[-1][name] = tensor
        size += own
    return groups
