"""Experiments overlap: mega-reward by default on Breakout is a row of several tables. Such a run is made once, and the
other tables get copies of its record."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from megareward.experiments.plans import EXPERIMENTS, Cell
from megareward.experiments.runner import Job, record_of, record_path
from megareward.runs.durable import replace_synced
from megareward.runs.record import Record
from megareward.training.config import TrainConfig, bearing, to_dict


def adopt(job: Job) -> Path | None:
    """Copy the record of this very run from another experiment, if that one counts it for a cell of the same settings
    and it has all that is asked here. Returns the file it came from."""
    if job.cell.before is not None or job.picture is not None:  # it is not all in the record
        return None
    wanted = _numbers(job.cell.config)
    for name in reversed(EXPERIMENTS):  # those whose records are younger, by and large
        for cell in _cells_at(name, job.cell.column, job.cell.config.seed):
            folder = job.results.parent / name
            path = record_path(folder, cell)
            if folder == job.results or not path.exists() or _numbers(cell.config) != wanted:
                continue
            record = record_of(folder, cell)
            if record is not None and _has_all(record, path, job):
                job.results.mkdir(parents=True, exist_ok=True)
                replace_synced(record_path(job.results, job.cell), path.read_bytes())
                return path
    return None


@cache
def _cells_at(name: str, column: str, seed: int) -> list[Cell]:
    """The runs of all rows of an experiment in this column."""
    experiment = EXPERIMENTS[name]
    if column not in experiment.columns:
        return []
    return [cell for row in experiment.rows for cell in experiment.cells_of(row, column) if cell.config.seed == seed]


@cache
def _numbers(config: TrainConfig) -> dict[str, Any]:
    """What bears on the numbers, as JSON has it."""
    known: dict[str, Any] = bearing(json.loads(json.dumps(to_dict(config))))
    return known


def _has_all(record: Record, path: Path, job: Job) -> bool:
    games = [len(e["scores"]) for e in record.evaluations if e["frames"] >= job.cell.config.frames]
    return job.is_whole(record, path) and (not job.whole_games or job.whole_games in games)
