"""Make all runs of an experiment, several at a time, each in a process of its own. What is done is never done again."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from megareward.experiments.plans import Cell
from megareward.progress import Bar
from megareward.runs.folder import RunFolder
from megareward.runs.provenance import provenance
from megareward.runs.record import Record
from megareward.training.config import bearing, create_run, to_dict
from megareward.training.run import pick_device

Say = Callable[[str], None]


def record_path(results: Path, cell: Cell) -> Path:
    return results / f"{cell.name}.json"


def is_done(results: Path, cell: Cell) -> bool:
    return record_of(results, cell) is not None


def record_of(results: Path, cell: Cell) -> Record | None:
    """The record of this very run, if it is there: finished, and of the same settings as far as it knows them. (A field
    that is younger than the record is not in it.)"""
    path = record_path(results, cell)
    if not path.exists():
        return None
    record = Record.read(path)
    return record if record.finished and is_of(record.config, cell) else None


def is_of(config: dict[str, Any], cell: Cell) -> bool:
    """Whether these are the settings of this cell, as far as they bear on what is learnt."""
    config, wanted = (bearing(json.loads(json.dumps(c))) for c in (config, to_dict(cell.config)))  # JSON: lists only
    return agrees(config, wanted)


def agrees(recorded: Any, wanted: Any) -> bool:
    """Whether every field that was recorded has the value that is wanted."""
    if isinstance(recorded, dict) and isinstance(wanted, dict):
        return all(name in wanted and agrees(value, wanted[name]) for name, value in recorded.items())
    return bool(recorded == wanted)


def run_all(
    cells: list[Cell], runs: Path, results: Path, jobs: int, say: Say = print, whole_games: int = 0
) -> list[Cell]:
    """Returns the cells whose runs failed. Interrupted, it can be started again and goes on where it was."""
    left = [cell for cell in cells if not is_done(results, cell)]
    say(f"{len(cells) - len(left)} of {len(cells)} runs are done; {len(left)} to go, {jobs} at a time.")
    begun, failed = time.monotonic(), []
    pool = ThreadPoolExecutor(jobs)
    try:
        futures = {pool.submit(run_one, cell, runs, results, whole_games): cell for cell in left}
        for n, future in enumerate(as_they_end(futures), 1):
            cell, trouble = futures[future], future.result()
            if trouble:
                failed.append(cell)
            each = (time.monotonic() - begun) / n
            minutes = each * (len(left) - n) / 60
            outcome = trouble or f"score {Record.read(record_path(results, cell)).score:.3g}"
            say(f"{n} of {len(left)}  {cell.name}: {outcome}  ({minutes:.0f} min left)")
    finally:
        pool.shutdown(cancel_futures=True)
    return failed


def as_they_end(futures: Iterable[Future[str]]) -> Iterator[Future[str]]:
    """One after the other, with a sign of life in between."""
    waited_for = set(futures)
    bar, of = Bar("runs"), len(waited_for)
    while waited_for:
        ended, waited_for = wait(waited_for, timeout=1.0, return_when=FIRST_COMPLETED)
        if not ended:
            bar(of - len(waited_for), of)
        yield from ended


def run_one(cell: Cell, runs: Path, results: Path, whole_games: int = 0) -> str:
    """Train one cell to its end, let it play some whole games, and record it. Returns what went wrong, if anything
    did."""
    path = runs / cell.name
    if not path.exists():
        create_run(path, cell.config, provenance(pick_device(cell.config.device)))
    elif not is_of(RunFolder.open(path).record()["config"], cell):
        return f"{path} holds a run of other settings; move it away"
    commands = [["resume", str(path), "--no-tensorboard"]]
    if whole_games:
        commands.append(["eval", str(path), "--episodes", str(whole_games), "--device", cell.config.device])
    log = path / "log.txt"
    for words in commands:
        with log.open("a") as output:
            status = subprocess.run(
                [sys.executable, "-m", "megareward.cli", *words],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            ).returncode
        if status:
            return f"ended with status {status}: {last_line(log)} (all of it in {log})"
    Record.of_run(path).write(record_path(results, cell))
    return ""


def last_line(log: Path) -> str:
    """What a run said last. Its progress lines rewrite each other and end with a carriage return."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "it said nothing")
