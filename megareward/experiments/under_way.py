"""Progress of a sweep: the runs that are done, and how much is done of those under way."""

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
"""Runs under way that are shown by name; further ones are only counted."""


class UnderWay:
    """The progress of a sweep. Not safe for threads: callers must hold a lock."""

    def __init__(self, of: int) -> None:
        self.of, self.ended = of, 0
        self._begun, self._gained = time.monotonic(), 0.0
        self._taken: dict[str, tuple[Job, float]] = {}
        """Jobs under way by name, each with the share that was done when it was taken: stopped runs are continued."""

    def take(self, job: "Job") -> None:
        self._taken[job.name] = job, done_of(job)

    def end(self, job: "Job") -> None:
        _, first = self._taken.pop(job.name, (job, 0.0))
        self._gained += 1 - first
        self.ended += 1

    @property
    def _jobs(self) -> "list[Job]":
        return [job for job, _ in self._taken.values()]

    def left(self) -> float | None:
        """Seconds left, if this sweep keeps its speed. None before it has made any progress, and while the last runs
        are trained but not ended, since the time that whole games take is not known."""
        now, first = sum(map(done_of, self._jobs)), sum(first for _, first in self._taken.values())
        gained, to_go = self._gained + now - first, self.of - self.ended - now
        if gained <= 0 or (self._taken and to_go < 1e-9):
            return None
        return (time.monotonic() - self._begun) * to_go / gained

    def text(self) -> str:
        runs = [f"{job.cell.name} {stage_of(job)}" for job in self._jobs[:NAMED]]
        if len(self._jobs) > NAMED:
            runs.append(f"and {len(self._jobs) - NAMED} more")
        left = self.left()
        pace = f"{duration(time.monotonic() - self._begun)} so far" if left is None else f"{duration(left)} left"
        return "  ".join([f"{self.ended} of {self.of} runs", *([", ".join(runs)] if runs else []), pace])


def stage_of(job: "Job") -> str:
    """The present stage of a run, in a word or two."""
    done = done_of(job)
    if done < 1:
        return f"{int(100 * done)}%"
    return "plays whole games" if job.whole_games else "is audited" if job.audit is not None else "100%"


def done_of(job: "Job") -> float:
    """The share of a run's frames that is trained; 0 if its log is not visible, as on another machine."""
    return min(last_frames(job.path / "metrics.jsonl") / job.cell.config.frames, 1.0)


def last_frames(log: Path) -> int:
    """`frames` in the last whole line of a log; 0 if there is none. Only the end is read, as logs may be large."""
    with suppress(OSError), open(log, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 2**16))
        for line in reversed(file.read().split(b"\n")[:-1]):
            with suppress(ValueError, RecursionError):
                row = json.loads(line)
                if isinstance(row, dict) and isinstance(frames := row.get("frames"), int):
                    return frames
    return 0
