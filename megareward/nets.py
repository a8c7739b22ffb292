"""What the policy's network and those of the learning rewards share: convolutional trunks and their initialisation; and
on which devices low precision pays."""

import math
from typing import Any, TypeVar

import torch
from torch import nn

from megareward.errors import UsageError

Layer = TypeVar("Layer", nn.Conv2d, nn.Linear)

TRUNKS: dict[str, tuple[tuple[tuple[int, int, int], ...], int]] = {
    # ((features, kernel, stride), ...), units of the last layer
    "nature": (((32, 8, 4), (64, 4, 2), (64, 3, 1)), 512),
    "nature-32": (((32, 8, 4), (64, 4, 2), (32, 3, 1)), 512),
    "small": (((16, 4, 2), (32, 3, 2)), 128),
}
NATURE_FROM = 64
"""Pixels of the shorter side from which `auto` is `nature`; below it is `small`."""


def trunk_for(frame_shape: tuple[int, int], name: str = "auto") -> str:
    if name != "auto":
        return name
    return "nature" if min(frame_shape) >= NATURE_FROM else "small"


def trunk_units(frame_shape: tuple[int, int], name: str = "auto") -> int:
    return TRUNKS[trunk_for(frame_shape, name)][1]


def trunk_layers(
    frame_shape: tuple[int, int], channels: int, activation: nn.Module, name: str = "auto"
) -> list[nn.Module]:
    """(B, channels, px_h, px_w) -> (B, units): convolutions, each with its activation, then a linear layer without."""
    name = trunk_for(frame_shape, name)
    convolutions, units = TRUNKS[name]
    layers: list[nn.Module] = []
    height, width = frame_shape
    for features, kernel, stride in convolutions:
        height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
        if min(height, width) < 1:
            remedy = "7 by 7 is the least" if name == "small" else "use 'small'"
            raise UsageError(f"Frames of {frame_shape} pixels are too small for the trunk '{name}'; {remedy}.")
        layers += [orthogonal(nn.Conv2d(channels, features, kernel, stride)), activation]
        channels = features
    return [*layers, nn.Flatten(), orthogonal(nn.Linear(channels * height * width, units))]


def orthogonal(layer: Layer, gain: float = math.sqrt(2)) -> Layer:
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return layer


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether this device has instructions for products of bfloat16: every GPU here, and CPUs with AVX512-BF16 or AMX.
    Elsewhere such products are slower than those of float32."""
    if device.type != "cpu":
        return True
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # missing in an older torch
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
