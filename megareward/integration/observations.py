"""Reads one grey frame per environment from observations of any common kind; and checks actions, flags and rewards.

Of a stack of frames only the newest is used, as the reward keeps its own stacks. So it does not matter whether
observations are stacked, nor how a stack is filled at the beginning of an episode.

Invalid input is refused before anything is computed, with its shape and the shapes that are accepted.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium.spaces import Box, Discrete, Space

from megareward.errors import UsageError
from megareward.types import Bool, Float, Int, Shaped, Tensor, UInt8

LEAST, MOST = 32, 256
"""Smallest and largest side of a frame in pixels. A shorter axis is one of channels or of frames."""
LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in a grey level (ITU-R BT.601)."""
READ_AT_ONCE = 512
"""Frames that are converted to floating point at a time."""

SHAPES = (
    f"Observations are images: (h, w), (c, h, w), (h, w, c), (k, c, h, w) or (k, h, w, c), with h and w from {LEAST} "
    f"to {MOST}, k frames, newest last, and c = 1 (grey), 3 (red, green, blue) or one channel per stacked grey frame"
)


class FrameReader:
    """Reads the newest frame of every observation of one space."""

    def __init__(
        self,
        space: Space[Any],
        grid: tuple[int, int] | None = None,
        stack: int | None = None,
        resize: int | tuple[int, int] | None = None,
    ) -> None:
        """`grid` (rows, columns) must divide the frame. `stack`: frames in one observation, if that is ambiguous."""
        if not isinstance(space, Box):
            raise UsageError(f"The observation space is {space}. {SHAPES}, in a gymnasium Box.")
        self.space, self.grid, self.stack = space, grid, stack
        self.shape = tuple(int(side) for side in space.shape)
        self.low, self.high = _bounds(space)
        self.whole = bool(np.issubdtype(space.dtype, np.integer))
        self.channel_axis, self.colours = _layout(self.shape, stack)
        sides = self.shape[:-1] if self.channel_axis == -1 else self.shape
        self.picture_shape = (sides[-2], sides[-1])
        """Pixels of the observation itself."""
        self.frame_shape = _sides(resize) if resize is not None else self.picture_shape
        """Pixels of the frame that the reward reads."""
        for axis, pixels, cells in zip("hw", self.frame_shape, grid or (1, 1), strict=True):
            if not LEAST <= pixels <= MOST:
                raise UsageError(
                    f"Frames of {_by(self.frame_shape)} pixels: {axis} is {pixels}, and must be from {LEAST} to "
                    f"{MOST}. Pass resize=84, or any size you like."
                )
            if pixels % cells:
                fitting = max(round(pixels / cells), math.ceil(LEAST / cells)) * cells
                raise UsageError(
                    f"Frames of {_by(self.frame_shape)} pixels cannot be cut into {_by(grid or ())} cells: {axis} is "
                    f"{pixels}. Pass resize with a multiple of {cells}, such as {fitting}, or control=ControlConfig "
                    f"with another H and W."
                )

    def like(self, space: Space[Any]) -> "FrameReader":
        """A reader of the same frames in another layout, as when a wrapper has moved the channels."""
        other = FrameReader(space, self.grid, self.stack, self.frame_shape)
        if other.picture_shape != self.picture_shape:
            raise UsageError(
                f"Observations have the shape {other.shape}, but the reward was made for {self.shape}; make it for the "
                f"space of the environments it is used with."
            )
        return other

    def read(self, observations: Any, lead: Sequence[int], name: str = "observations") -> UInt8[Tensor, "*B px_h px_w"]:
        """(*lead, *shape of the space) -> (*lead, px_h, px_w): a copy, on the device that the observations are on."""
        x = as_tensor(observations, name)
        wanted = (*lead, *self.shape)
        if tuple(x.shape) != wanted:
            hint = ""
            if self.shape[:1] == tuple(lead[-1:]) and x.shape[-len(self.shape) :] == self.shape:
                hint = " Was the space that of the whole batch? Pass the single_observation_space."
            raise UsageError(f"{name} have the shape {tuple(x.shape)}; expected {wanted}.{hint}")
        newest = self._newest(x).flatten(0, len(lead) - 1)  # (B, colours, h, w)
        plain = newest.dtype == torch.uint8 and (self.low, self.high) == (0, 255)
        if plain and self.colours == 1 and self.frame_shape == self.picture_shape:
            frames = newest[:, 0].clone(memory_format=torch.contiguous_format)
        else:
            parts = newest.split(READ_AT_ONCE)
            frames = torch.cat([self._grey(self._checked(part, name)) for part in parts])
        return frames.unflatten(0, tuple(lead))

    def _newest(self, x: Shaped[Tensor, "..."]) -> Shaped[Tensor, "*B colours h w"]:
        axes = len(self.shape)
        if axes == 4:
            x = x.select(-4, -1)
        if axes == 2:
            return x.unsqueeze(-3)
        channels = x.movedim(-1, -3) if self.channel_axis == -1 else x
        return channels[..., -self.colours :, :, :]

    def _checked(self, x: Shaped[Tensor, "B c h w"], name: str) -> Float[Tensor, "B c h w"]:
        x = x.float()
        inside = (x >= self.low) & (x <= self.high)  # not a number is in no range
        if not inside.all():
            raise UsageError(
                f"{name} hold {float(x[~inside][0]):g}, but the observation space reaches from {self.low:g} to "
                f"{self.high:g}; pass observations as the environment gives them, or the space they belong to."
            )
        if self.whole and not torch.equal(x, x.round()):
            raise UsageError(
                f"{name} hold fractions such as {float(x[x != x.round()][0]):.3g}, but the observation space has whole "
                f"numbers from {self.low:g} to {self.high:g}; pass them unscaled, or the space they belong to."
            )
        return x

    def _grey(self, x: Float[Tensor, "B c h w"]) -> UInt8[Tensor, "B px_h px_w"]:
        x = (x - self.low) * (255 / (self.high - self.low))
        if self.colours == 3:
            x = (x * x.new_tensor(LUMA)[:, None, None]).sum(1, keepdim=True)
        if self.frame_shape != self.picture_shape:
            x = F.interpolate(x, self.frame_shape, mode="area")
        return x[:, 0].round().clamp(0, 255).to(torch.uint8)


def read_actions(space: Discrete, actions: Any, lead: Sequence[int]) -> Int[Tensor, "*B"]:
    """Whole numbers from 0, of any type; a last axis of size 1 is dropped."""
    x = as_tensor(actions, "actions")
    if tuple(x.shape) == (*lead, 1):
        x = x[..., 0]
    require_shape(x, lead, "actions")
    numbers = x.to(torch.int64)
    if x.is_floating_point() and not torch.equal(numbers.to(x.dtype), x):
        raise UsageError(f"actions hold {float(x[numbers != x][0]):g}; a discrete action is a whole number.")
    numbers = numbers - int(space.start)
    outside = (numbers < 0) | (numbers >= int(space.n))
    if outside.any():
        raise UsageError(f"actions hold {int(x[outside][0])}, but the action space is {space}.")
    return numbers


def read_flags(flags: Any, lead: Sequence[int], name: str) -> Bool[Tensor, "*B"]:
    x = require_shape(as_tensor(flags, name), lead, name)
    if x.dtype != torch.bool and not ((x == 0) | (x == 1)).all():
        raise UsageError(f"{name} hold {float(x[(x != 0) & (x != 1)][0]):g}; a flag is True or False (1 or 0).")
    return x.bool()


def read_rewards(rewards: Any, lead: Sequence[int]) -> Float[Tensor, "*B"]:
    return require_shape(as_tensor(rewards, "rewards"), lead, "rewards").float()


def discrete(space: Space[Any]) -> Discrete:
    if not isinstance(space, Discrete):
        hint = " Of a vector environment, pass the single_action_space." if hasattr(space, "nvec") else ""
        raise UsageError(
            f"The action space is {space}; the rewards here take Discrete actions only, one number per decision.{hint}"
        )
    return space


def as_tensor(x: Any, name: str) -> Tensor:
    if isinstance(x, Tensor):
        return x.detach()
    array = np.asarray(x)
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == np.bool_):
        raise UsageError(f"{name} are an array of {array.dtype}; pass numbers, as one array or tensor.")
    if any(stride < 0 for stride in array.strides) or array.dtype.byteorder not in "=|" or not array.flags.writeable:
        array = array.astype(array.dtype.newbyteorder("="))  # what torch cannot look at, it gets a copy of
    return torch.from_numpy(array)


def require_shape(x: Tensor, lead: Sequence[int], name: str) -> Tensor:
    if tuple(x.shape) != tuple(lead):
        raise UsageError(f"{name} have the shape {tuple(x.shape)}; expected {tuple(lead)}.")
    return x


def _bounds(space: Box) -> tuple[float, float]:
    low, high = float(space.low.min()), float(space.high.max())
    even = bool((space.low == space.low.min()).all() and (space.high == space.high.max()).all())
    if not (even and math.isfinite(low) and math.isfinite(high) and low < high):
        raise UsageError(
            f"The observation space is {space}; its bounds must be finite, the same for all pixels and apart, such as "
            f"0 and 255, or 0 and 1: they say what black and white are."
        )
    return low, high


def channel_axis(shape: tuple[int, ...]) -> int:
    """-1 or -3, counted from the end; -3 also for a single grey frame, which has none."""
    image = shape[1:] if len(shape) == 4 else shape
    if len(image) == 2:
        return -3
    if len(image) == 3 and (len(shape) == 3 or shape[0] < LEAST):
        if image[2] < LEAST <= min(image[:2]):
            return -1
        if image[0] < LEAST <= min(image[1:]):
            return -3
    raise UsageError(f"Observations have the shape {shape}. {SHAPES}.")


def _layout(shape: tuple[int, ...], stack: int | None) -> tuple[int, int]:
    """The axis of the channels, and how many of them are one frame: 1 or 3."""
    axis = channel_axis(shape)
    if len(shape) == 2:
        if stack not in (None, 1):
            raise UsageError(f"stack={stack}, but observations have the shape {shape}: that is a single grey frame.")
        return axis, 1
    channels = shape[axis]
    if len(shape) == 4:
        if channels not in (1, 3) or stack not in (None, shape[0]):
            said = "" if stack is None else f", but stack={stack}"
            raise UsageError(f"Observations have the shape {shape}{said}. {SHAPES}.")
        return axis, channels
    if stack is not None:
        if stack < 1 or channels not in (stack, 3 * stack):
            raise UsageError(
                f"stack={stack}, but observations have the shape {shape}: {channels} channels are neither {stack} grey "
                f"frames nor {stack} frames in colour."
            )
        return axis, channels // stack
    if channels > 3 and channels % 3 == 0:
        raise UsageError(
            f"Observations have the shape {shape}: {channels} channels may be {channels} grey frames or "
            f"{channels // 3} in colour. Say which, with stack={channels} or stack={channels // 3}."
        )
    return axis, 3 if channels == 3 else 1


def _sides(resize: int | tuple[int, int]) -> tuple[int, int]:
    sides = (resize, resize) if isinstance(resize, int) else tuple(resize)
    if len(sides) != 2 or not all(isinstance(side, int) for side in sides):
        raise UsageError(f"resize={resize}; give a number of pixels, or two: (height, width).")
    return sides[0], sides[1]


def _by(sides: Sequence[int]) -> str:
    return " x ".join(str(side) for side in sides)
