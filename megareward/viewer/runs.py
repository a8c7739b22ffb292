"""Runs as a report reads them: their logs, which of them are seeds of one experiment, and curves with intervals."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from megareward.analysis.results import curve, shown_method
from megareward.errors import RunError, UsageError
from megareward.runs.folder import RunFolder
from megareward.training.config import NO_BEARING, RECENT, TrainConfig, to_dict, with_preset
from megareward.viewer.charts import Line

NOT_THE_EXPERIMENT = ("seed", *NO_BEARING)
"""Settings in which runs of one experiment may differ."""
FEWEST = 10
"""Games before a curve begins; the mean of fewer is wild."""


@dataclass(frozen=True)
class Run:
    """What a finished or running run has left on disk."""

    path: Path
    config: dict[str, Any]
    provenance: dict[str, Any]
    episodes: list[dict[str, Any]]
    metrics: list[dict[str, float]]
    evaluations: list[dict[str, Any]]
    audits: list[dict[str, Any]]
    """What `megareward audit` has written, one per policy that played."""

    @classmethod
    def read(cls, path: Path) -> "Run":
        folder = RunFolder.open(path)
        record, metrics = folder.record(), folder.rows("metrics.jsonl")
        if not metrics:
            raise UsageError(f"{path} has no metrics yet; `megareward resume {path}` trains it first.")
        return cls(
            path,
            to_dict(folder.config()),  # with the defaults of fields that are younger than the run
            record["provenance"],
            folder.rows("scores.jsonl"),
            metrics,
            folder.rows("eval.jsonl"),
            [_read_audit(file) for file in sorted(path.glob("audit-*.json"))],
        )

    @property
    def game(self) -> str:
        return str(self.config["game"])

    @property
    def method(self) -> str:
        return shown_method(self.config)

    @property
    def frames(self) -> int:
        return int(self.metrics[-1]["frames"])

    @property
    def last_scores(self) -> list[float]:
        return [episode["score"] for episode in self.episodes[-RECENT:]]

    def settings(self) -> dict[str, Any]:
        """All settings by dotted name."""
        return flat(self.config)

    def changed(self) -> dict[str, tuple[Any, Any]]:
        """Settings that differ from what `megareward train METHOD --game GAME` would take: (here, there)."""
        usual = flat(to_dict(with_preset(TrainConfig(method=self.config["method"], game=self.game), "auto")))
        mine = self.settings()
        skipped = {"method", "game", *NOT_THE_EXPERIMENT}
        return {
            k: (v, usual.get(k)) for k, v in mine.items() if k not in skipped and as_json(v) != as_json(usual.get(k))
        }

    def seconds(self) -> dict[str, float]:
        """Time spent in each part of the loop, most first."""
        parts = {key.removeprefix("seconds/") for row in self.metrics for key in row if key.startswith("seconds/")}
        total = {part: sum(row.get(f"seconds/{part}", 0.0) for row in self.metrics) for part in parts}
        return dict(sorted(total.items(), key=lambda entry: -entry[1]))


@dataclass(frozen=True)
class Group:
    """Runs of one experiment: the same settings, other seeds."""

    name: str
    runs: list[Run]

    @property
    def game(self) -> str:
        return self.runs[0].game

    @property
    def scores(self) -> list[float]:
        """The final score of each seed that finished a game."""
        return [float(np.mean(run.last_scores)) for run in self.runs if run.episodes]


def group_runs(runs: list[Run]) -> list[Group]:
    """Seeds together. Where one method was run with several settings, the name says what differs."""
    found: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        settings = {k: v for k, v in run.settings().items() if k not in NOT_THE_EXPERIMENT}
        found.setdefault((run.game, run.method, as_json(settings)), []).append(run)
    groups = []
    for (game, method, _), members in found.items():
        rivals = [m[0] for (g, n, _), m in found.items() if (g, n) == (game, method)]
        different = differences(rivals)
        own = ", ".join(f"{k.rsplit('.', 1)[-1]} {values[rivals.index(members[0])]}" for k, values in different.items())
        groups.append(Group(f"{method} ({own})" if own else method, members))
    return groups


def differences(runs: list[Run]) -> dict[str, list[Any]]:
    """Settings that are not the same in all runs, with their value in each."""
    every = [run.settings() for run in runs]
    names = dict.fromkeys(name for settings in every for name in settings)
    rows = {name: [settings.get(name, "–") for settings in every] for name in names if name not in NOT_THE_EXPERIMENT}
    return {name: values for name, values in rows.items() if len({as_json(v) for v in values}) > 1}


def score_line(group: Group, points: int = 160) -> Line | None:
    """The mean of the last 50 games against frames, with an interval (`interval_text` says which)."""
    runs = [run for run in group.runs if len(run.episodes) > 1]
    if not runs:
        return None
    if len(runs) == 1:
        return _one_seed(group.name, runs[0])
    curves = [np.array(curve(run.episodes)) for run in runs]  # each (moments, 2)
    start = max(run.episodes[min(FEWEST, len(run.episodes)) - 1]["frames"] for run in runs)
    end = min(c[-1, 0] for c in curves)
    x = np.linspace(start, end, points)
    each = np.stack([np.interp(x, c[:, 0], c[:, 1]) for c in curves])  # (seeds, points)
    low, high = interval(each)
    return Line(group.name, x, each.mean(0), low, high)


def _one_seed(name: str, run: Run) -> Line:
    scores = np.array([episode["score"] for episode in run.episodes], dtype=float)
    ends = np.unique(np.linspace(min(FEWEST, len(scores)), len(scores), 160).round().astype(int))
    frames = np.array([run.episodes[end - 1]["frames"] for end in ends], dtype=float)
    recent = [scores[max(end - RECENT, 0) : end] for end in ends]
    mean = np.array([r.mean() for r in recent])
    error = np.array([1.96 * r.std(ddof=1) / np.sqrt(len(r)) for r in recent])
    return Line(name, frames, mean, mean - error, mean + error)


def interval(each: np.ndarray, draws: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """95% bootstrap interval of the mean over the first axis (seeds); of two seeds, both."""
    if len(each) < 3:
        return each.min(0), each.max(0)
    chosen = np.random.default_rng(0).integers(len(each), size=(draws, len(each)))
    means = each[chosen].mean(1)
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return low, high


def interval_text(group: Group) -> str:
    seeds = len(group.runs)
    if seeds == 1:
        return "95% interval of the mean over the last 50 games; one seed says nothing about other seeds"
    return "from the worse to the better of two seeds" if seeds == 2 else f"95% bootstrap interval over {seeds} seeds"


def flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{'ppo': {'clip': 0.1}} -> {'ppo.clip': 0.1}."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found


def as_json(value: Any) -> str:
    """For comparing: JSON knows no tuples."""
    return json.dumps(value, sort_keys=True)


def _read_audit(path: Path) -> dict[str, Any]:
    try:
        audit: dict[str, Any] = json.loads(path.read_text())
    except ValueError as broken:
        raise RunError(f"{path} is not valid JSON ({broken}); audit the run again or remove it.") from broken
    return audit
