"""How far a sweep is: the runs that are done, and the part that is done of those under way."""

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from megareward.quantities import duration

if TYPE_CHECKING:
    from megareward.experiments.runner import Job

NAMED = 3
"""Runs under way that are told by name; of more only how many."""


class UnderWay:
    """Callers take care that only one of them is in here at a time."""

    def __init__(self, of: int) -> None:
        self.of, self.ended = of, 0
        self._begun, self._gained = time.monotonic(), 0.0
        self._taken: dict[str, tuple[Job, float]] = {}
        """By name, with the part that was done when it was taken: a sweep goes on with runs that were stopped."""

    def take(self, job: "Job") -> None:
        self._taken[job.name] = job, done_of(job)

    def end(self, job: "Job") -> None:
        _, first = self._taken.pop(job.name, (job, 0.0))
        self._gained += 1 - first
        self.ended += 1

    def left(self) -> float | None:
        """Seconds, if the rest goes as what was done by this sweep; None before there is any."""
        return self._left([(job, first, done_of(job)) for job, first in self._taken.values()])

    def _left(self, now: "list[tuple[Job, float, float]]") -> float | None:
        gained = self._gained + sum(done - first for _, first, done in now)
        to_go = self.of - self.ended - sum(done for *_, done in now)
        return (time.monotonic() - self._begun) * to_go / gained if gained > 0 else None

    def text(self) -> str:
        now = [(job, first, done_of(job)) for job, first in self._taken.values()]
        runs = [f"{job.cell.name} {done:.0%}" for job, _, done in now[:NAMED]]
        if len(now) > NAMED:
            runs.append(f"and {len(now) - NAMED} more")
        left = self._left(now)
        pace = f"{duration(time.monotonic() - self._begun)} so far" if left is None else f"{duration(left)} left"
        return "  ".join([f"{self.ended} of {self.of} runs", *([", ".join(runs)] if runs else []), pace])


def done_of(job: "Job") -> float:
    """The part of a run's frames that is trained; 0 where it is not to be seen, as on another machine."""
    return min(last_frames(job.path / "metrics.jsonl") / job.cell.config.frames, 1.0)


def last_frames(log: Path) -> int:
    """Of its last whole line; 0 if there is none. The end is enough, as logs of long runs are large."""
    with suppress(OSError), open(log, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 2**16))
        for line in reversed(file.read().split(b"\n")[:-1]):
            with suppress(ValueError, RecursionError):
                row = json.loads(line)
                if isinstance(row, dict) and isinstance(frames := row.get("frames"), int):
                    return frames
    return 0
