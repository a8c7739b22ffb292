"""Experiments overlap: default mega-reward on Breakout, for example, is in several tables. Such a run is made once, and
the other tables get copies of its record."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from megareward.experiments.plans import EXPERIMENTS, Cell
from megareward.experiments.runner import Job, is_done, record_of, record_path
from megareward.runs.durable import replace_synced
from megareward.runs.record import Record
from megareward.training.config import TrainConfig, bearing, to_dict


def adopt(job: Job) -> Path | None:
    """Copy the record of this run from another experiment that has a cell with the same settings, if the record has all
    that this job asks for. Returns the file it came from, or None."""
    if job.cell.before is not None or job.picture is not None:  # these are not part of a record
        return None
    wanted = _numbers(job.cell.config)
    for name in reversed(EXPERIMENTS):  # later experiments mostly have newer records
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


def each_once(jobs: list[Job]) -> list[Job]:
    """The jobs without those whose record can be copied from that of an earlier one."""
    first: dict[object, Job] = {}
    for job in jobs:
        first.setdefault(_made_by(job), job)
    return list(first.values())


def _made_by(job: Job) -> object:
    """Equal for jobs that make the same record; a job that cannot `adopt` one equals no other."""
    if not _can_adopt(job):
        return object()
    return json.dumps([_numbers(job.cell.config), job.whole_games, job.audit], sort_keys=True)


def _can_adopt(job: Job) -> bool:
    return job.cell.before is None and job.picture is None  # else it is not all in the record


def adopt_all(jobs: list[Job]) -> None:
    """Copy what other experiments have recorded of these runs."""
    for job in jobs:
        if not is_done(job.results, job.cell) and (source := adopt(job)):
            print(f"{job.cell.name} is recorded already; copied from {source}.")


@cache
def _cells_at(name: str, column: str, seed: int) -> list[Cell]:
    """The runs of all rows of an experiment in this column."""
    experiment = EXPERIMENTS[name]
    if column not in experiment.columns:
        return []
    return [cell for row in experiment.rows for cell in experiment.cells_of(row, column) if cell.config.seed == seed]


@cache
def _numbers(config: TrainConfig) -> dict[str, Any]:
    """The settings that affect the numbers, as JSON stores them."""
    known: dict[str, Any] = bearing(json.loads(json.dumps(to_dict(config))))
    return known


def _has_all(record: Record, path: Path, job: Job) -> bool:
    games = [len(e["scores"]) for e in record.evaluations if e["frames"] >= job.cell.config.frames]
    return job.is_whole(record, path) and (not job.whole_games or job.whole_games in games)
