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

    @property
    def _jobs(self) -> "list[Job]":
        return [job for job, _ in self._taken.values()]

    def left(self) -> float | None:
        """Seconds, if the rest goes as what was done by this sweep. None before there is any, and while the last ones
        are trained but not ended: how long whole games take is not known."""
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
    """What a run is at, in a word or two."""
    done = done_of(job)
    if done < 1:
        return f"{int(100 * done)}%"
    return "plays whole games" if job.whole_games else "is audited" if job.audit is not None else "100%"


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
