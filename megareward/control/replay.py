"""Transitions to train on: the frames of the last few rollouts, kept once, as bytes."""

from collections import deque
from typing import NamedTuple

import torch

from megareward.errors import UsageError
from megareward.types import Bool, Int, Tensor, UInt8


class Transitions(NamedTuple):
    """A batch of real transitions (S_{t-1}, a_{t-1}, s_t)."""

    stack: UInt8[Tensor, "B K px_h px_w"]
    """The K frames up to t - 1, newest last."""
    actions: Int[Tensor, "B"]
    now: UInt8[Tensor, "B px_h px_w"]


def episode_starts(first: Bool[Tensor, "L N"]) -> Int[Tensor, "L N"]:
    """For every frame the time at which its episode starts, or 0 if that is before the first frame kept."""
    time = torch.arange(len(first), device=first.device)[:, None]
    return torch.where(first, time, 0).cummax(0).values


def stack_times(times: Int[Tensor, "B"], starts: Int[Tensor, "B"], K: int) -> Int[Tensor, "B K"]:
    """The times of the K frames up to `times`, newest last; before its start an episode repeats its first frame."""
    lags = torch.arange(K - 1, -1, -1, device=times.device)
    return torch.maximum(times[:, None] - lags, starts[:, None])


class Rollout(NamedTuple):
    """L = P + T + 1 frames of N environments. The first P are history for stacks; T actions lie between the others."""

    frames: UInt8[Tensor, "L N px_h px_w"]
    actions: Int[Tensor, "T N"]
    first: Bool[Tensor, "L N"]

    @property
    def P(self) -> int:
        return len(self.frames) - len(self.actions) - 1

    def real(self) -> Int[Tensor, "M 2"]:
        """(time of the frame before, environment) of every transition that does not cross a reset; on the CPU."""
        rows = (~self.first[self.P + 1 :]).nonzero().cpu()
        rows[:, 0] += self.P
        return rows

    def gather(self, rows: Int[Tensor, "B 2"], K: int) -> Transitions:
        t, n = rows.to(self.frames.device, non_blocking=True).unbind(1)
        times = stack_times(t, episode_starts(self.first)[t, n], K)  # (B, K)
        return Transitions(self.frames[times, n[:, None]], self.actions[t - self.P, n], self.frames[t + 1, n])


class Replay:
    """The newest `size` rollouts."""

    def __init__(self, size: int, stack: int) -> None:
        self.stack = stack
        self.rollouts: deque[Rollout] = deque(maxlen=size)

    def add(
        self, frames: UInt8[Tensor, "L N px_h px_w"], actions: Int[Tensor, "T N"], first: Bool[Tensor, "L N"]
    ) -> None:
        """Copies, so that the caller may write over its buffers."""
        if len(frames) <= len(actions) or len(first) != len(frames):
            raise UsageError(
                f"A rollout of {len(actions)} actions came with {len(frames)} frames and {len(first)} first flags; "
                "give one frame more than actions (plus history), and a flag for each frame."
            )
        self.rollouts.append(Rollout(frames.clone(), actions.clone(), first.clone()))

    def draw(self, fraction: float, generator: torch.Generator) -> Int[Tensor, "M 3"]:
        """A random share of all real transitions, in random order, each at most once: (rollout, time, environment)."""
        rows = [torch.nn.functional.pad(r.real(), (1, 0), value=i) for i, r in enumerate(self.rollouts)]
        everything = torch.cat(rows)
        chosen = torch.randperm(len(everything), generator=generator)[: round(fraction * len(everything))]
        return everything[chosen]

    def gather(self, rows: Int[Tensor, "B 3"]) -> Transitions:
        """The transitions named by `rows`; rollout by rollout, since the order in a batch means nothing."""
        parts = []
        for i, rollout in enumerate(self.rollouts):
            mine = rows[rows[:, 0] == i, 1:]
            if len(mine):
                parts.append(rollout.gather(mine, self.stack))
        return Transitions(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))

    def state_dict(self) -> dict[str, Tensor]:
        """What the next update can still draw from: all but the oldest of a full replay."""
        keep = list(self.rollouts)
        if self.rollouts.maxlen is not None and len(keep) == self.rollouts.maxlen:
            keep = keep[1:]
        return {f"{i}.{name}": tensor for i, rollout in enumerate(keep) for name, tensor in rollout._asdict().items()}

    def load_state_dict(self, state: dict[str, Tensor], device: torch.device) -> None:
        self.rollouts.clear()
        for i in range(len(state) // len(Rollout._fields)):
            self.rollouts.append(Rollout(*(state[f"{i}.{name}"].to(device) for name in Rollout._fields)))
