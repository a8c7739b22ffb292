"""The two networks that see things: one draws (predicts) what they will look like, one predicts the action."""

import torch
import torch.nn.functional as F
from torch import nn

from megareward.types import Float, Int, Tensor

KERNELS = (5, 5, 3)
"""Sides of the drawing convolutions; together they see pixels up to 5 away."""


def block_of(frame_shape: tuple[int, int]) -> int:
    """Side of the blocks of pixels that the convolutions see as one position with more features: on a large screen
    things move farther, in pixels. 1 on 32 pixels, 2 on 84."""
    return max(1, round(min(frame_shape) / 42))


class Draws(nn.Module):
    """Phi: a screen that shows some things only, and the action -> the screen that these things show next."""

    def __init__(self, frame_shape: tuple[int, int], frames: int, n_actions: int, features: int) -> None:
        super().__init__()
        self.block = block_of(frame_shape)
        C, squares = features, self.block**2
        self.enter = nn.Conv2d((frames + 1) * squares, C, KERNELS[0], padding="same")
        self.action = nn.Embedding(n_actions, C)
        self.inner = nn.Conv2d(C, C, KERNELS[1], padding="same")
        self.leave = nn.Conv2d(C, squares, KERNELS[2], padding="same")

    @property
    def reach(self) -> int:
        """How far, in pixels, what is shown can influence the drawing."""
        return self.block * sum(kernel // 2 for kernel in KERNELS)

    def forward(
        self, shown: Float[Tensor, "M K h w"], scenery: Float[Tensor, "*B h w"], actions: Int[Tensor, "M"]
    ) -> Float[Tensor, "M h w"]:
        """`shown`: K frames or a part of them, oldest first, as differences to the scenery, which are 0 where
        nothing is shown."""
        seen = torch.cat([shown, scenery.expand(len(shown), 1, -1, -1)], 1)
        x = self.enter(F.pixel_unshuffle(seen, self.block).contiguous(memory_format=torch.channels_last))
        x = F.relu(x + self.action(actions)[:, :, None, None])
        return F.pixel_shuffle(self.leave(F.relu(self.inner(x))), self.block)[:, 0] + shown[:, -1]


class Guesses(nn.Module):
    """Theta: how a thing looked and looks now -> logits of the action in between."""

    def __init__(self, frame_shape: tuple[int, int], frames: int, n_actions: int, features: int) -> None:
        super().__init__()
        self.block = block_of(frame_shape)
        C = features
        self.enter = nn.Conv2d((frames + 2) * self.block**2, C, 5, padding=2)
        self.inner = nn.Conv2d(C, 2 * C, 3, stride=2, padding=1)
        self.hidden = nn.Linear(2 * C, 4 * C)
        self.leave = nn.Linear(4 * C, n_actions)
        nn.init.normal_(self.leave.weight, std=0.01)  # untrained, it predicts all actions almost equally
        nn.init.zeros_(self.leave.bias)

    def forward(
        self,
        shown: Float[Tensor, "M K px_h px_w"],
        now: Float[Tensor, "M px_h px_w"],
        scenery: Float[Tensor, "px_h px_w"],
    ) -> Float[Tensor, "M A"]:
        seen = torch.cat([shown, now[:, None], scenery.expand(len(shown), 1, -1, -1)], 1)
        x = self.enter(F.pixel_unshuffle(seen, self.block).contiguous(memory_format=torch.channels_last))
        x = F.relu(self.inner(F.relu(x))).amax((-2, -1))
        return self.leave(F.relu(self.hidden(x)))
