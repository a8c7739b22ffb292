"""Transitions to train on: the frames of the last few rollouts, kept once, as bytes."""

from collections import deque
from typing import NamedTuple

import torch

from megareward.errors import UsageError
from megareward.stacking import stack_times
from megareward.state import MismatchError, check_fits
from megareward.types import Bool, Float, Int, Tensor, UInt8


class Transitions(NamedTuple):
    """A batch of real transitions (S_{t-1}, a_{t-1}, s_t)."""

    stack: UInt8[Tensor, "B K px_h px_w"]
    """The K frames up to t - 1, newest last."""
    actions: Int[Tensor, "B"]
    now: UInt8[Tensor, "B px_h px_w"]
    log_policy: Float[Tensor, "B A"]
    """Log-probability of every action under the policy; zeros where all were equally likely."""


def episode_starts(first: Bool[Tensor, "L N"]) -> Int[Tensor, "L N"]:
    """For every frame the time at which its episode starts, or 0 if that is before the first frame kept."""
    time = torch.arange(len(first), device=first.device)[:, None]
    return torch.where(first, time, 0).cummax(0).values


class StoredRollout(NamedTuple):
    """L = P + T + 1 frames of N environments. The first P are history for stacks; T actions lie between the others."""

    frames: UInt8[Tensor, "L N px_h px_w"]
    actions: Int[Tensor, "T N"]
    first: Bool[Tensor, "L N"]
    log_policy: Float[Tensor, "T N A"]

    @property
    def P(self) -> int:
        return len(self.frames) - len(self.actions) - 1

    def real(self, first: Bool[Tensor, "T N"] | None = None) -> Int[Tensor, "M 2"]:
        """(time of the frame before, environment) of every transition that does not cross a reset; on the CPU.

        `first`: its T newest rows, if they are on the CPU already; this saves a wait for the device.
        """
        first = self.first[self.P + 1 :] if first is None else first
        rows = (~first).nonzero().cpu()
        rows[:, 0] += self.P
        return rows

    def pictures(self, rows: Int[Tensor, "M 2"], K: int) -> Int[Tensor, "M K_plus_1"]:
        """The frames of each transition, as numbers t * N + n: its stack, then the next frame."""
        t, n = rows.unbind(1)
        times = torch.cat([stack_times(t, t - episode_starts(self.first)[t, n], K), t[:, None] + 1], 1)
        return times * self.frames.shape[1] + n[:, None]


class Table(NamedTuple):
    """Every real transition of all kept rollouts, by number: a batch is looked up without a host sync."""

    frames: UInt8[Tensor, "F px_h px_w"]
    pictures: Int[Tensor, "M K_plus_1"]
    actions: Int[Tensor, "M"]
    log_policy: Float[Tensor, "M A"]


class ReplayBuffer:
    """The newest `size` rollouts."""

    def __init__(self, size: int, stack: int, n_actions: int = 1) -> None:
        self.stack, self.n_actions = stack, n_actions
        self.rollouts: deque[StoredRollout] = deque(maxlen=size)
        self._rows: deque[Int[Tensor, "M 2"]] = deque(maxlen=size)
        self._table: Table | None = None

    def add(
        self,
        frames: UInt8[Tensor, "L N px_h px_w"],
        actions: Int[Tensor, "T N"],
        first: Bool[Tensor, "L N"],
        log_policy: Float[Tensor, "T N A"] | None = None,
        first_on_cpu: Bool[Tensor, "T N"] | None = None,
    ) -> None:
        """Copies, so that the caller may write over its buffers. `first_on_cpu`: see `StoredRollout.real`. Without
        `log_policy` all actions were equally likely."""
        if len(frames) <= len(actions) or len(first) != len(frames):
            raise UsageError(
                f"A rollout of {len(actions)} actions came with {len(frames)} frames and {len(first)} first flags; "
                "give one frame more than actions (plus history), and a flag for each frame."
            )
        log_policy = self._all_alike(actions) if log_policy is None else log_policy.clone()
        self._append(StoredRollout(frames.clone(), actions.clone(), first.clone(), log_policy), first_on_cpu)

    def _all_alike(self, actions: Int[Tensor, "T N"]) -> Float[Tensor, "T N A"]:
        return torch.zeros(*actions.shape, self.n_actions, device=actions.device)

    def _append(self, rollout: StoredRollout, first_on_cpu: Bool[Tensor, "T N"] | None = None) -> None:
        self.rollouts.append(rollout)
        self._rows.append(rollout.real(first_on_cpu))
        self._table = None

    def draw(self, fraction: float, generator: torch.Generator) -> Int[Tensor, "M"]:
        """The numbers of a random share of all real transitions, in random order, each at most once; on the CPU."""
        n = sum(map(len, self._rows))
        return torch.randperm(n, generator=generator)[: round(fraction * n)]

    def batches(self, fraction: float, size: int, generator: torch.Generator) -> list[Int[Tensor, "B"]]:
        """A `draw`, cut into batches of `size` for `gather`. A remainder is left out, because BatchNorm needs large
        batches, unless it is all there is; a single transition, which has no variance, is never used."""
        drawn = self.draw(fraction, generator)
        size = min(size, len(drawn))
        if size < 2:
            return []
        parts = drawn[: len(drawn) - len(drawn) % size].reshape(-1, size)
        # Rollout by rollout. This order means nothing, but it decides the last bits of every sum over a batch.
        ends = torch.tensor([len(rows) for rows in self._rows]).cumsum(0)
        parts = parts.gather(1, torch.bucketize(parts, ends, right=True).argsort(stable=True, dim=1))
        return list(self._to_device(parts))

    def gather(self, numbers: Int[Tensor, "B"]) -> Transitions:
        """The transitions of these numbers, which are on the device of the frames."""
        table = self.table()
        pictures = table.pictures[numbers]
        before, now = table.frames[pictures[:, :-1]], table.frames[pictures[:, -1]]
        return Transitions(before, table.actions[numbers], now, table.log_policy[numbers])

    def table(self) -> Table:
        """Built once after each added rollout."""
        if self._table is None:
            frames, pictures, actions, log_policy, n_before = [], [], [], [], 0
            for rollout, here in zip(self.rollouts, self._rows, strict=True):
                rows = self._to_device(here)
                frames.append(rollout.frames.flatten(0, 1))
                pictures.append(rollout.pictures(rows, self.stack) + n_before)
                chosen = (rows[:, 0] - rollout.P, rows[:, 1])
                actions.append(rollout.actions[chosen])
                log_policy.append(rollout.log_policy[chosen])
                n_before += len(frames[-1])
            self._table = Table(*map(torch.cat, (frames, pictures, actions, log_policy)))
        return self._table

    def _to_device(self, numbers: Tensor) -> Tensor:
        device = self.rollouts[-1].frames.device
        if device.type == "cuda":  # from pageable memory the host would wait for all that is queued
            return numbers.pin_memory().to(device, non_blocking=True)
        return numbers

    def state_dict(self) -> dict[str, Tensor]:
        """What the next update can still draw from: all but the oldest of a full replay."""
        keep = list(self.rollouts)
        if self.rollouts.maxlen is not None and len(keep) == self.rollouts.maxlen:
            keep = keep[1:]
        return {f"{i}.{name}": tensor for i, rollout in enumerate(keep) for name, tensor in rollout._asdict().items()}

    def load_state_dict(self, state: dict[str, Tensor], device: torch.device) -> None:
        self.rollouts.clear()
        self._rows.clear()
        for i in range(sum(name.endswith(".frames") for name in state)):
            rollout = StoredRollout(*(state[f"{i}.{name}"].to(device) for name in StoredRollout._fields))
            self._check(rollout)
            self._append(rollout)

    def _check(self, rollout: StoredRollout) -> None:
        (T, N), A = rollout.actions.shape[:2], self.n_actions
        L, *size = rollout.frames.shape[0], *rollout.frames.shape[2:]
        like = StoredRollout(
            torch.empty(max(L, T + 1), N, *size, dtype=torch.uint8),
            torch.empty(T, N, dtype=torch.int64),
            torch.empty(L, N, dtype=torch.bool),
            torch.empty(T, N, A),
        )
        check_fits(rollout._asdict(), like._asdict())
        if rollout.actions.numel() and not 0 <= int(rollout.actions.min()) <= int(rollout.actions.max()) < A:
            raise MismatchError(f"the replay holds actions that are not among {A}")
