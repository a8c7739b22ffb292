"""Experiments overlap: mega-reward by default on Breakout is a row of several tables. Such a run is made once, and the
other tables get copies of its record."""

import json
from pathlib import Path

from megareward.experiments.runner import Job, record_path
from megareward.runs.durable import replace_synced
from megareward.runs.record import Record
from megareward.training.config import bearing, to_dict


def adopt(job: Job) -> Path | None:
    """Copy the record of this very run from another experiment beside this one, if one has all that is asked of it.
    Returns the file it came from."""
    cell = job.cell
    if cell.before is not None or job.picture is not None:  # it is not all in the record
        return None
    wanted = _numbers(to_dict(cell.config))
    for path in sorted(job.results.parent.glob(f"*/*{cell.place}.json")):
        record = Record.read(path)
        if record.finished and _numbers(record.config) == wanted and _has_all(record, path, job):
            job.results.mkdir(parents=True, exist_ok=True)
            replace_synced(record_path(job.results, cell), path.read_bytes())
            return path
    return None


def _numbers(config: dict[str, object]) -> dict[str, object]:
    """What bears on the numbers, as JSON has it. Nothing may be missing: a record that is older than a field does not
    say which value it had."""
    known: dict[str, object] = bearing(json.loads(json.dumps(config)))
    return known


def _has_all(record: Record, path: Path, job: Job) -> bool:
    games = [len(e["scores"]) for e in record.evaluations if e["frames"] >= job.cell.config.frames]
    return job.is_whole(record, path) and (not job.whole_games or job.whole_games in games)
