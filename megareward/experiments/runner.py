"""Make runs and record them, several at a time, each in a process of its own. Recorded runs are never repeated.

This module defines what to run, what is done and what a record is; an engine only decides where the work runs.
"""

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, TextIO

from megareward.envs.games import ROOM_AT
from megareward.errors import RunError, UsageError
from megareward.experiments.plans import Cell
from megareward.experiments.under_way import UnderWay
from megareward.parent import PARENT
from megareward.progress import Bar
from megareward.quantities import count
from megareward.runs.durable import no_links
from megareward.runs.folder import ExistsError, RunFolder
from megareward.runs.logs import RunLogs
from megareward.runs.record import Record
from megareward.training.config import bearing, to_dict

Say = Callable[[str], None]


def record_path(results: Path, cell: Cell) -> Path:
    return results / f"{cell.name}.json"


def is_done(results: Path, cell: Cell) -> bool:
    return record_of(results, cell) is not None


def record_of(results: Path, cell: Cell) -> Record | None:
    """The record of this run, if there is one that is finished and has the same settings, as far as it has them.
    (Settings that are newer than the record are not in it.)"""
    path = record_path(results, cell)
    if not path.exists():
        return None
    record = Record.read(path)
    return record if record.finished and is_of(record.config, cell) else None


def is_of(config: dict[str, Any], cell: Cell) -> bool:
    """Whether these are the settings of this cell, as far as they affect what is learnt."""
    config, wanted = (bearing(json.loads(json.dumps(c))) for c in (config, to_dict(cell.config)))  # JSON: lists only
    return agrees(config, wanted)


def agrees(recorded: Any, wanted: Any) -> bool:
    """Whether every recorded field has the wanted value."""
    if isinstance(recorded, dict) and isinstance(wanted, dict):
        return all(name in wanted and agrees(value, wanted[name]) for name, value in recorded.items())
    return bool(recorded == wanted)


@dataclass(frozen=True)
class Job:
    """One run to be made: its cell, the folders for it and its record, and what to do after training."""

    cell: Cell
    runs: Path
    """Folder that holds the run's folder."""
    results: Path
    """Folder of its record."""
    whole_games: int = 0
    metrics: tuple[str, ...] = ()
    """Metrics of which the record keeps a curve, if the run has them."""
    audit: tuple[str, ...] | None = None
    """Options of `megareward audit`; None: it is not audited."""
    truth: Path | None = None
    """Folder of the truth that audits find once for each game; None: beside the runs."""
    picture: tuple[str, ...] | None = None
    """Options of `megareward figure case-study`, whose picture is kept beside the record; None: none is drawn."""
    minutes: float | None = None
    """Minutes of training after which it stops, to be continued later; None: no limit."""

    @property
    def name(self) -> str:
        """Names of the experiment and the run."""
        return f"{self.results.name}/{self.cell.name}"

    @property
    def path(self) -> Path:
        return self.runs / self.cell.name

    def absolute(self) -> "Job":
        """The same job with absolute paths, for a process in another working directory."""
        truth = self.truth and self.truth.absolute()
        return replace(self, runs=self.runs.absolute(), results=self.results.absolute(), truth=truth)

    @property
    def picture_path(self) -> Path:
        return self.results / f"{self.cell.name}.png"

    def is_done(self) -> bool:
        record = record_of(self.results, self.cell)
        return record is not None and self.is_whole(record, record_path(self.results, self.cell))

    def is_whole(self, record: Record, path: Path) -> bool:
        """Whether a record of this run, at this path, has all that the job asks for."""
        has_picture = path.with_suffix(".png").exists()
        return (self.audit is None or record.audit is not None) and (self.picture is None or has_picture)


def run_all(cells: list[Cell], runs: Path, results: Path, jobs: int, say: Say = print, **asked: Any) -> list[Cell]:
    """Make all runs that are not recorded. Returns the cells whose runs failed. If interrupted, call it again to
    continue. `asked`: further fields of each `Job`."""
    return [job.cell for job in run_jobs([Job(cell, runs, results, **asked) for cell in cells], jobs, say)]


def run_jobs(jobs: list[Job], at_a_time: int, say: Say = print, minutes: float | None = None) -> list[Job]:
    """The same for jobs of any experiments. After so many minutes those under way save themselves and stop, and no more
    are begun."""
    left = [job for job in jobs if not is_done(job.results, job.cell)]
    say(f"{len(jobs) - len(left)} of {len(jobs)} runs are done; {len(left)} to go, {at_a_time} at a time.")
    in_time = left if minutes is None else while_there_is_time(left, minutes)
    return do_all(in_time, len(left), partial(on_this_machine, at_a_time=at_a_time), say)


def while_there_is_time(jobs: Iterable[Job], minutes: float) -> Iterator[Job]:
    """Jobs that each train for the rest of the time, when they are taken, and no longer."""
    end = time.monotonic() + 60 * minutes
    for job in jobs:
        left = (end - time.monotonic()) / 60
        if left <= 0:
            return
        yield replace(job, minutes=left)


Take = Callable[[], Job | None]
Done = Callable[[Job, str], None]
Engine = Callable[[Take, Done], None]
"""Runs each job that `take` returns, until that is None, and calls `done` with it and an error message, or ''."""


def do_all(jobs: Iterable[Job], of: int, engine: Engine, say: Say = print) -> list[Job]:
    """Do all jobs, at most `of`; returns those that failed. `jobs` may be a queue shared with other processes."""
    queue, lock, under_way = iter(jobs), Lock(), UnderWay(of)
    failed: list[Job] = []

    def take() -> Job | None:
        with lock:
            if job := next(queue, None):
                under_way.take(job)
            return job

    def done(job: Job, trouble: str) -> None:
        with lock:
            under_way.end(job)
            if trouble:
                failed.append(job)
            outcome = trouble or outcome_of(Record.read(record_path(job.results, job.cell)))
            left = under_way.left()
            when = "" if left is None else f"  ({left / 60:.0f} min left)"
            say(f"{under_way.ended} of {of}  {job.cell.name}: {outcome}{when}")

    over = Event()
    alive = Thread(target=_sign_of_life, args=(over, lock, under_way), daemon=True)
    alive.start()
    try:
        engine(take, done)
    finally:
        over.set()
        alive.join()
    return failed


def outcome_of(record: Record) -> str:
    return "no game finished" if record.score is None else f"score {record.score:.3g}"


def _sign_of_life(over: Event, lock: Lock, under_way: UnderWay) -> None:
    """Show a progress line while runs are made."""
    bar = Bar("runs")
    while not over.wait(1.0):
        with lock:
            if under_way.ended < under_way.of and bar.is_due():
                bar.show(under_way.text())


def on_this_machine(take: Take, done: Done, at_a_time: int) -> None:
    """The engine `local`: so many processes at a time. After Ctrl-C, running ones save themselves and no more start."""
    over = Event()

    def work() -> None:
        while not over.is_set() and (job := take()):
            done(job, do_job(job, over))

    pool = ThreadPoolExecutor(at_a_time)
    try:
        for worker in [pool.submit(work) for _ in range(at_a_time)]:
            worker.result()
    finally:
        over.set()
        pool.shutdown()


def do_job(job: Job, stop: Event | None = None) -> str:
    """Train one run to its end, after the run that it starts from; do what else the job asks for, and record it. If
    another process works on this run, wait for it, or until `stop`, and then do only what is left. Returns an error
    message, or ''."""
    try:
        return "" if job.is_done() else _trouble_with(job, stop or Event())
    except (UsageError, RunError) as why:
        return str(why)


STOPPED = "stopped after"


def _trouble_with(job: Job, stop: Event) -> str:
    from megareward.training.run import create

    path, cell, config = job.path, job.cell, job.cell.config
    if cell.before is not None:
        first = Job(cell.before, job.runs, job.results, minutes=job.minutes)
        if trouble := do_job(first, stop):
            return f"{cell.before.name} {trouble}"
        config = replace(config, start_from=str(first.path))
    if not path.exists():
        with suppress(ExistsError):  # another process was faster
            create(config, path)
    if not is_of(RunFolder.open(path).record()["config"], cell):
        return f"{path} holds a run of other settings; move it away"
    with open(path / LOG, "a", opener=no_links) as log:
        if not is_our_turn(log, stop):
            return "another process is at it"
        return "" if job.is_done() else _make(job, log)


def _make(job: Job, log: TextIO) -> str:
    path, cell = job.path, job.cell
    device = ["--device", cell.config.device]
    limit = [] if job.minutes is None else ["--minutes", str(job.minutes)]
    if trouble := run_command(log, "resume", str(path), "--no-tensorboard", *device, *limit):
        return trouble
    if (frames := RunLogs.read(path).frames) < cell.config.frames:
        length = f"{count(frames)} of {count(cell.config.frames)} frames"
        return f"{STOPPED} {job.minutes or 0:.3g} minutes at {length}; start again to go on"
    if job.whole_games and not has_played(path, cell, job.whole_games):
        rooms = ["--rooms"] if cell.config.game in ROOM_AT else []
        trouble = run_command(log, "eval", str(path), "--episodes", str(job.whole_games), *rooms, *device)
    if not trouble and job.audit is not None:
        cache = ["--cache", str(job.truth or job.runs / "audit-truth")]
        trouble = run_command(log, "audit", str(path), *device, *cache, *job.audit)
    if not trouble and job.picture is not None:
        out = ["--run", str(path), "--out", str(job.picture_path)]
        trouble = run_command(log, "figure", "case-study", *out, *device, *job.picture)
    if trouble:
        return trouble
    record = Record.of_run(path).with_metrics(path, job.metrics)
    if job.audit is not None:  # of maps; a run too short for a score has them all the same
        record = replace(record, audit=json.loads((path / "audit-random.json").read_bytes()))
    else:
        record.needs_score(path)
    record.write(record_path(job.results, cell))
    return ""


LOG = "log.txt"


def run_command(log: TextIO, *words: str) -> str:
    """Run a `megareward` command in a process that ends with this one. Returns an error message, or ''. It computes
    with one thread, as there may be a process for every core, unless the environment sets OMP_NUM_THREADS (Ray does).
    """
    status = subprocess.run(
        [sys.executable, "-m", "megareward.cli", *words],
        stdout=log,
        stderr=subprocess.STDOUT,
        env={"OMP_NUM_THREADS": "1"} | os.environ | {PARENT: str(os.getpid())},
    ).returncode
    return f"ended with status {status}: {last_line(Path(log.name))} (all of it in {log.name})" if status else ""


def is_our_turn(log: TextIO, stop: Event) -> bool:
    """Wait until no other sweep writes into this log, nor a process left over from a killed sweep (processes share the
    lock of the sweep that started them). False if `stop` came first."""
    while not stop.is_set():
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            stop.wait(0.2)
    return False


def has_played(path: Path, cell: Cell, games: int) -> bool:
    """Whether the whole games after training are played already: the sweep was stopped before it recorded them."""
    played = RunFolder(path).rows("eval.jsonl")
    return any(row.get("frames", 0) >= cell.config.frames and len(row["scores"]) == games for row in played)


def last_line(log: Path) -> str:
    """The last line of a run's output. Progress lines overwrite each other and end with a carriage return."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "it said nothing")
