"""Stacks of the newest K frames. Before an episode's first frame there is nothing: that frame is repeated.

A policy can also be shown black frames there, as in the released code.
"""

import torch

from megareward.types import Bool, Int, Tensor, UInt8


def stack_times(times: Int[Tensor, "B"], age: Int[Tensor, "B"], K: int) -> Int[Tensor, "B K"]:
    """The times of the K frames up to `times`, newest last, where `age` frames of the episode came before."""
    lags = torch.arange(K - 1, -1, -1, device=times.device)
    return times[:, None] - torch.minimum(lags, age[:, None])


def in_episode(age: Int[Tensor, "B"], K: int) -> Bool[Tensor, "B K"]:
    """Which frames of such a stack are not repeated ones."""
    return torch.arange(K - 1, -1, -1, device=age.device) <= age[:, None]


def pushed(
    stack: UInt8[Tensor, "N K px_h px_w"], newest: UInt8[Tensor, "N px_h px_w"], first: Bool[Tensor, "N"]
) -> UInt8[Tensor, "N K px_h px_w"]:
    """The stack one step later; where `first` is set, the newest frame opens an episode."""
    frames = newest[:, None]  # (N, 1, px_h, px_w)
    return torch.where(first[:, None, None, None], frames, torch.cat([stack[:, 1:], frames], 1))
