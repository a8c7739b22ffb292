"""The actor-critic: frames (and optional extra channels) in; action logits and one value per reward stream out."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from megareward.errors import UsageError
from megareward.ppo.config import PolicyConfig
from megareward.types import Float, Int, Tensor, UInt8

TRUNKS: dict[str, tuple[tuple[tuple[int, int, int], ...], int]] = {
    # ((features, kernel, stride), ...), units of the last layer
    "nature": (((32, 8, 4), (64, 4, 2), (64, 3, 1)), 512),
    "nature-32": (((32, 8, 4), (64, 4, 2), (32, 3, 1)), 512),
    "small": (((16, 4, 2), (32, 3, 2)), 128),
}


def orthogonal(layer: nn.Conv2d | nn.Linear, gain: float = math.sqrt(2)) -> nn.Conv2d | nn.Linear:
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return layer


class Policy(nn.Module):
    """Convolutional trunk, a policy head (gain 0.01) and a linear value head with one output per stream."""

    def __init__(
        self,
        frame_shape: tuple[int, int],
        n_actions: int,
        n_streams: int,
        config: PolicyConfig,
        extra_channels: int = 0,
    ) -> None:
        super().__init__()
        name = config.trunk
        if name == "auto":
            name = "nature" if min(frame_shape) >= 64 else "small"
        convolutions, units = TRUNKS[name]
        layers: list[nn.Module] = []
        channels, (height, width) = config.stack + extra_channels, frame_shape
        for features, kernel, stride in convolutions:
            layers += [orthogonal(nn.Conv2d(channels, features, kernel, stride)), nn.ReLU()]
            channels = features
            height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
            if min(height, width) < 1:
                raise UsageError(f"Frames of {frame_shape} pixels are too small for the trunk '{name}'; use 'small'.")
        layers += [nn.Flatten(), orthogonal(nn.Linear(channels * height * width, units)), nn.ReLU()]
        self.trunk = nn.Sequential(*layers)
        self.action_head = orthogonal(nn.Linear(units, n_actions), gain=0.01)
        self.value_head = orthogonal(nn.Linear(units, n_streams), gain=1.0)

    def forward(
        self, stack: UInt8[Tensor, "B C px_h px_w"], extra: Float[Tensor, "B E px_h px_w"] | None = None
    ) -> tuple[Float[Tensor, "B A"], Float[Tensor, "B S"]]:
        dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else self.dtype
        first, *rest = self.trunk
        assert isinstance(first, nn.Conv2d)
        if stack.is_cuda and fits_blocks(first, stack.shape[-2:]):
            x = convolve_blocks(first, stack, extra, dtype)
        else:
            x = stack.to(dtype) / 255.0
            x = first(x if extra is None else torch.cat([x, extra.to(dtype)], dim=1))  # (B, C+E, px_h, px_w)
        for layer in rest:
            x = layer(x)
        features = x.float()
        with torch.autocast(features.device.type, enabled=False):  # the heads decide probabilities: keep them exact
            return self.action_head(features), self.value_head(features)

    def put_features_last(self) -> None:
        """Lay out the kernels as `forward` lays out the frames on a GPU, which is how its tensor cores read."""
        for parameter in self.trunk.parameters():
            if parameter.ndim == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)

    @property
    def dtype(self) -> torch.dtype:
        return self.action_head.weight.dtype


def fits_blocks(conv: nn.Conv2d, frame_shape: tuple[int, ...]) -> bool:
    sizes = (*conv.kernel_size, *frame_shape)
    return conv.stride[0] == conv.stride[1] and not any(size % conv.stride[0] for size in sizes)


def convolve_blocks(
    conv: nn.Conv2d,
    stack: UInt8[Tensor, "B C px_h px_w"],
    extra: Float[Tensor, "B E px_h px_w"] | None,
    dtype: torch.dtype,
) -> Float[Tensor, "B features h w"]:
    """`conv` of stack / 255 and the extra channels, with every block of stride x stride pixels as one pixel of many
    features: a convolution of stride 1, its features last, as a GPU's tensor cores like it. They dislike four channels.

    Bytes stay whole numbers, which bfloat16 holds exactly; the kernel is divided by 255 instead.
    """
    s, (B, C, px_h, px_w) = conv.stride[0], stack.shape
    E = 0 if extra is None else extra.shape[1]
    blocks = torch.empty(B, px_h // s, px_w // s, C + E, s, s, dtype=dtype, device=stack.device)
    for start, part in ((0, stack), (C, extra)):
        if part is not None:
            rows = part.reshape(B, -1, px_h // s, s, px_w // s, s)
            blocks[:, :, :, start : start + part.shape[1]] = rows.permute(0, 2, 4, 1, 3, 5)
    kernel = torch.cat([conv.weight[:, :C] / 255.0, conv.weight[:, C:]], dim=1)
    return F.conv2d(blocks.flatten(3).permute(0, 3, 1, 2), F.pixel_unshuffle(kernel, s), conv.bias)


def sample(logits: Float[Tensor, "N A"], clocks: Float[Tensor, "N A"]) -> Int[Tensor, "N"]:
    """Draw from softmax(logits): the action whose clock rings first. `clocks` are draws of the exponential law.

    The dice are an argument because a CUDA graph cannot throw them; nothing here waits for the device.
    """
    return (torch.softmax(logits, dim=-1) / clocks).argmax(-1)
