"""The record of a run: one small JSON file with its score, curve, settings and origin. Reports and tables read it."""

import json
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from megareward.errors import RunError, UsageError
from megareward.quantities import count
from megareward.runs.durable import replace_synced
from megareward.runs.logs import RunLogs, method_and_rule
from megareward.statistics.scores import curve, last_mean, last_scores

RECORD_VERSION = 2
"""Version 1 has no entry `record_version` and is otherwise the same."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """The record of a run. Its fields are the entries of the file, in this order."""

    record_version: int = RECORD_VERSION
    game: str
    method: str
    """From `logs.shown_method`; `label` adds the rule for death and more."""
    seed: int
    frames: int
    """Emulator frames trained; `config["frames"]` were planned."""
    finished: bool
    score: float | None
    """Mean raw score of the last 50 finished games of training; None if no game was finished."""
    episodes_in_score: int
    """Games in `score`: 50, or fewer if fewer were finished."""
    episodes: int
    """Games finished in training."""
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    """Results of `megareward eval`, oldest first."""
    curve: list[list[float]]
    """[frames, mean score of the last 50 games] at up to 200 points."""
    config: dict[str, Any]
    """All settings, as in the run's config.json."""
    provenance: dict[str, Any]
    """Commit, versions and hardware of the process that created the run."""
    processes: list[dict[str, Any]] = field(default_factory=list)
    """Every process that worked on the run."""
    seconds: float | None = None
    """Seconds of training in all processes, without startup; None in older records."""
    audit: dict[str, Any] | None = None
    """Result of `megareward audit`; None if the run was not audited."""
    metrics: dict[str, list[list[float]]] | None = None
    """[frames, mean since the point before] of metrics that the run's table shows, by name, at up to 20 points."""

    @property
    def label(self) -> str:
        """Name of the method for tables and captions."""
        return method_and_rule(self.config)

    @classmethod
    def of_run(cls, path: Path) -> "Record":
        """Make a record from the folder of a run."""
        logs = RunLogs.read(path)
        frames = logs.frames
        return cls(
            game=logs.game,
            method=logs.method,
            seed=logs.config["seed"],
            frames=frames,
            finished=frames >= logs.config["frames"],
            score=last_mean(logs.episodes) if logs.episodes else None,
            episodes_in_score=len(last_scores(logs.episodes)),
            episodes=len(logs.episodes),
            evaluations=logs.evaluations,
            curve=curve(logs.episodes),
            config=logs.config,
            provenance=logs.provenance,
            processes=logs.processes,
            seconds=logs.training_seconds,
        )

    @classmethod
    def read(cls, path: Path) -> "Record":
        return _from_json(_load(path), path)

    def write(self, path: Path) -> Path:
        """Write JSON with one line per entry, for readable diffs. The file is replaced atomically."""
        entries = {f.name: getattr(self, f.name) for f in fields(self)}
        if self.record_version == 1:
            del entries["record_version"]
        for name in ("audit", "seconds", "metrics"):
            if entries[name] is None:
                del entries[name]
        lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in entries.items()]
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_synced(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
        return path

    def with_metrics(self, path: Path, names: Iterable[str]) -> "Record":
        """This record of the run at `path`, with curves of these metrics, as far as the run has them."""
        rows = RunLogs.read(path).metrics
        curves = {name: thinned([[row["frames"], row[name]] for row in rows if name in row]) for name in names}
        return replace(self, metrics={name: points for name, points in curves.items() if points} or None)

    def needs_score(self, path: Path) -> "Record":
        """This record of the run at `path`; raises if it has no score."""
        if self.score is None:
            raise UsageError(f"{path} has not finished a single game; train it for longer before recording it.")
        return self

    @property
    def length(self) -> str:
        """Frames trained, in words: 80M, or 71.6M of 80M if the run is not finished."""
        planned = count(self.config["frames"])
        return planned if self.finished else f"{count(self.frames)} of {planned}"


METRIC_POINTS = 20


def thinned(points: list[list[float]]) -> list[list[float]]:
    """Means of up to 20 runs of neighbouring points, each at the last of them."""
    parts = np.array_split(np.asarray(points, dtype=np.float64), METRIC_POINTS) if points else []
    return [[int(part[-1, 0]), float(f"{part[:, 1].mean():.4g}")] for part in parts if len(part)]


def read_records(places: Iterable[Path]) -> list[Record]:
    """Every record in these files and folders, in the order of paths; other JSON files are skipped."""
    return [record for _, record in read_record_files(places)]


def read_record_files(places: Iterable[Path]) -> list[tuple[Path, Record]]:
    """`read_records`, with the file of each."""
    files: list[Path] = []
    for place in places:
        if not place.exists():
            raise UsageError(f"{place} does not exist; name records or folders that hold some, such as results/runs.")
        files += sorted(place.rglob("*.json")) if place.is_dir() else [place]
    contents = ((file, _load(file)) for file in files)
    return [(file, _from_json(data, file)) for file, data in contents if _is_record(data)]


NAMES = [f.name for f in fields(Record)]
NEEDED = {f.name for f in fields(Record) if f.default is MISSING and f.default_factory is MISSING}


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except ValueError as broken:
        raise RunError(f"{path} is not valid JSON ({broken}); record its run again or remove it.") from broken


def _is_record(data: Any) -> bool:
    return isinstance(data, dict) and ("record_version" in data or data.keys() >= NEEDED)


def _from_json(data: Any, source: Path) -> Record:
    """Missing entries take their defaults; unknown ones are refused, so that rewriting cannot lose them."""
    if not isinstance(data, dict):
        raise RunError(f"{source} is not the record of a run but {type(data).__name__}; name another file.")
    version = data.get("record_version", 1)
    if version not in range(1, RECORD_VERSION + 1):
        raise UsageError(
            f"{source} is a record of version {version}, this megareward reads versions up to {RECORD_VERSION}; "
            "use the megareward that wrote it."
        )
    if missing := sorted(NEEDED - data.keys()):
        raise RunError(f"{source} is not the record of a run: it has no '{missing[0]}'; record the run again.")
    if strange := sorted(data.keys() - set(NAMES)):
        raise RunError(f"{source} has an entry '{strange[0]}', which records do not have; remove it.")
    return Record(**{**data, "record_version": version})
