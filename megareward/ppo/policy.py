"""The actor-critic: frames and declared fields in; action logits and one value per reward stream out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from megareward.nets import orthogonal, trunk_layers, trunk_units
from megareward.ppo.config import PolicyConfig
from megareward.rollout import Field, Padding, Rollout
from megareward.statistics.normaliser import Normaliser
from megareward.types import Float, Int, Tensor, UInt8


class Observation(NamedTuple):
    """What the policy sees of B samples."""

    stack: UInt8[Tensor, "B C px_h px_w"]
    channels: Float[Tensor, "B E px_h px_w"] | None = None
    """Maps painted over the frame, in [0, 1]."""
    vector: Float[Tensor, "B V"] | None = None
    skill: Int[Tensor, "B"] | None = None


@dataclass(frozen=True)
class PolicyInputs:
    """The recorded fields that a policy sees beside the stack of frames, by name."""

    channels: tuple[str, ...] = ()
    """Maps over the frame (`Field.picture`), each an extra channel."""
    vectors: tuple[str, ...] = ()
    """Numbers, joined to the trunk's output."""
    skill: str | None = None
    """A whole number below `n_skills`; the heads see its product with the trunk's output (SNN4HRL's bilinear form)."""
    n_skills: int = 1
    padding: Padding = "repeat"
    """What the stack shows before an episode's first frame."""

    def sizes(self, declared: Mapping[str, Field]) -> "InputSizes":
        names = (*self.channels, *self.vectors, *([self.skill] if self.skill else []))
        if missing := [name for name in names if name not in declared]:
            raise ValueError(f"The policy sees '{missing[0]}', but observers record only {', '.join(declared)}.")
        if flat := [name for name in self.channels if declared[name].picture is None]:
            raise ValueError(f"'{flat[0]}' is no map over the frame; let the policy see it as a vector.")
        vector = sum(torch.Size(declared[name].shape).numel() for name in self.vectors)
        return InputSizes(len(self.channels), vector, self.n_skills if self.skill else 0)

    def observe(self, rollout: Rollout, index: Int[Tensor, "B"]) -> Observation:
        """What the policy sees at any samples of a rollout."""
        channels = vector = None
        if self.channels:
            shape = (rollout.all_frames.shape[-2], rollout.all_frames.shape[-1])
            maps = [rollout.declared[name].painted(rollout.field(name, index), shape) for name in self.channels]
            channels = torch.stack(maps, 1)
        if self.vectors:
            vector = torch.cat([rollout.field(name, index).reshape(len(index), -1).float() for name in self.vectors], 1)
        skill = rollout.field(self.skill, index) if self.skill else None
        return Observation(rollout.stacks(index, self.padding), channels, vector, skill)


class InputSizes(NamedTuple):
    channels: int = 0
    vector: int = 0
    skills: int = 0
    """0 where there is no skill."""


class Policy(nn.Module):
    """Convolutional trunk, a policy head (gain 0.01) and a linear value head with one output per stream."""

    def __init__(
        self,
        frame_shape: tuple[int, int],
        n_actions: int,
        n_streams: int,
        config: PolicyConfig,
        inputs: InputSizes = InputSizes(),  # noqa: B008 - immutable
        normaliser: Normaliser | None = None,
    ) -> None:
        """`normaliser` scales the frames, which are divided by 255 without one; its state is saved by its owner."""
        super().__init__()
        self.normaliser = normaliser
        layers = trunk_layers(frame_shape, config.stack + inputs.channels, nn.ReLU(), config.trunk)
        self.trunk = nn.Sequential(*layers, nn.ReLU())
        self.n_skills = inputs.skills
        units = (trunk_units(frame_shape, config.trunk) + inputs.vector) * max(inputs.skills, 1)
        self.action_head = orthogonal(nn.Linear(units, n_actions), gain=0.01)
        self.value_head = orthogonal(nn.Linear(units, n_streams), gain=1.0)

    def forward(
        self,
        stack: UInt8[Tensor, "B C px_h px_w"],
        channels: Float[Tensor, "B E px_h px_w"] | None = None,
        vector: Float[Tensor, "B V"] | None = None,
        skill: Int[Tensor, "B"] | None = None,
    ) -> tuple[Float[Tensor, "B A"], Float[Tensor, "B S"]]:
        """Logits of the actions, and one value per stream."""
        features = self.features(stack, channels)
        if vector is not None:
            features = torch.cat([features, vector], 1)
        if skill is not None:  # only the block of the own skill is not zero
            own = skill[:, None] == torch.arange(self.n_skills, device=skill.device)  # (B, K); one_hot would wait
            features = (own[:, :, None] * features[:, None]).flatten(1)
        with torch.autocast(features.device.type, enabled=False):  # the heads decide probabilities: keep them exact
            return self.action_head(features), self.value_head(features)

    def features(
        self, stack: UInt8[Tensor, "B C px_h px_w"], channels: Float[Tensor, "B E px_h px_w"] | None = None
    ) -> Float[Tensor, "B units"]:
        """The trunk's output; an auxiliary loss trains the trunk through this."""
        kind = stack.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else self.dtype
        first, *rest = self.trunk
        assert isinstance(first, nn.Conv2d)
        if stack.is_cuda and fits_blocks(first, stack.shape[-2:]):
            x = convolve_blocks(first, stack, channels, dtype, self.normaliser)
        else:
            seen = stack.contiguous(memory_format=torch.channels_last)  # while these are still bytes
            x = seen.to(dtype) / 255.0 if self.normaliser is None else self.normaliser(seen).to(dtype)
            x = x if channels is None else torch.cat([x, channels.to(dtype)], dim=1)  # (B, C+E, px_h, px_w)
            x = first(x.contiguous(memory_format=torch.channels_last))
        for layer in rest:
            x = layer(x)
        return x.float()

    def put_features_last(self) -> None:
        """Lay out the kernels as `forward` lays out the frames: a GPU's tensor cores read them so, and a CPU's gradient
        steps take three quarters of the time."""
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
    channels: Float[Tensor, "B E px_h px_w"] | None,
    dtype: torch.dtype,
    normaliser: Normaliser | None = None,
) -> Float[Tensor, "B features h w"]:
    """`conv` of the scaled stack and the extra channels, with every block of stride x stride pixels as one pixel of
    many features: a convolution of stride 1, its features last, which is fast on a GPU's tensor cores. With four
    channels they are slow.

    Bytes stay whole numbers, which bfloat16 holds exactly; the kernel is divided by 255, or by the normaliser's std,
    instead. Its mean is subtracted before the convolution: the difference of two convolutions loses digits in bfloat16.
    """
    seen, scale = (stack, 255.0) if normaliser is None else (stack - normaliser.mean, normaliser.std)
    s, (B, C, px_h, px_w) = conv.stride[0], stack.shape
    E = 0 if channels is None else channels.shape[1]
    blocks = torch.empty(B, px_h // s, px_w // s, C + E, s, s, dtype=dtype, device=stack.device)
    for start, part in ((0, seen), (C, channels)):
        if part is not None:
            rows = part.reshape(B, -1, px_h // s, s, px_w // s, s)
            blocks[:, :, :, start : start + part.shape[1]] = rows.permute(0, 2, 4, 1, 3, 5)
    kernel = torch.cat([conv.weight[:, :C] / scale, conv.weight[:, C:]], dim=1)
    return F.conv2d(blocks.flatten(3).permute(0, 3, 1, 2), F.pixel_unshuffle(kernel, s), conv.bias)


def sample(logits: Float[Tensor, "N A"], exponentials: Float[Tensor, "N A"]) -> Int[Tensor, "N"]:
    """Draw from softmax(logits), given draws of the exponential distribution: the action whose event comes first.

    The random numbers are an argument because a CUDA graph cannot draw them; nothing here waits for the device.
    """
    return (torch.softmax(logits, dim=-1) / exponentials).argmax(-1)
