"""Runs as a report reads them: their logs, which of them are seeds of one experiment, and curves with intervals."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from megareward.analysis.settings import settings_key, without_seed
from megareward.errors import RunError
from megareward.runs.folder import is_number
from megareward.runs.logs import RunLogs
from megareward.statistics.bootstrap import interval
from megareward.statistics.scores import curve, curve_errors, last_mean
from megareward.training.config import NO_BEARING, TrainConfig, flat, from_dict, to_dict, upgraded
from megareward.training.presets import with_preset
from megareward.viewer.charts import Line

FEWEST = 10
"""Games before a curve begins; the mean of fewer is too noisy."""


@dataclass(frozen=True)
class Run(RunLogs):
    """The files of a finished or running run."""

    audits: list[dict[str, Any]]
    """What `megareward audit` has written, one per policy that played."""

    @classmethod
    def read(cls, path: Path) -> "Run":
        logs = RunLogs.read(path)
        logs.need_metrics()
        from_dict(logs.config, str(path / "config.json"))  # invalid settings are refused here, not while drawing
        return cls(**vars(logs), audits=[read_audit(file) for file in sorted(path.glob("audit-*.json"))])

    def settings(self) -> dict[str, Any]:
        """All settings by dotted name."""
        return flat(upgraded(self.config))

    def changed(self) -> dict[str, tuple[Any, Any]]:
        """Settings that differ from those of `megareward train METHOD --game GAME`, as (this run's, the default)."""
        usual = flat(to_dict(with_preset(TrainConfig(method=self.config["method"], game=self.game), "auto")))
        mine = self.settings()
        skipped = {"method", "game", "seed", *NO_BEARING}
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
        return [last_mean(run.episodes) for run in self.runs if run.episodes]


def group_runs(runs: list[Run]) -> list[Group]:
    """Runs grouped by seed. If one method was run with several settings, the group's name says what differs."""
    found: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        found.setdefault((run.game, run.label, settings_key(run.config)), []).append(run)
    groups = []
    for (game, method, _), members in found.items():
        rivals = [m[0] for (g, n, _), m in found.items() if (g, n) == (game, method)]
        different = differences(rivals)
        own = ", ".join(f"{k.rsplit('.', 1)[-1]} {values[rivals.index(members[0])]}" for k, values in different.items())
        groups.append(Group(f"{method} ({own})" if own else method, members))
    return groups


def differences(runs: list[Run]) -> dict[str, list[Any]]:
    """Settings that affect what is learnt and differ between the runs, with their value in each."""
    every, bearing = [run.settings() for run in runs], [flat(without_seed(run.config)) for run in runs]
    names = dict.fromkeys(name for settings in bearing for name in settings)
    return {name: _values(name, every) for name in names if _differ(name, every) and _differ(name, bearing)}


def _values(name: str, every: list[dict[str, Any]]) -> list[Any]:
    return [settings.get(name, "–") for settings in every]


def _differ(name: str, every: list[dict[str, Any]]) -> bool:
    return len({as_json(value) for value in _values(name, every)}) > 1


def score_line(group: Group, points: int = 160) -> Line | None:
    """The mean of the last 50 games against frames, with an interval (`interval_text` says which)."""
    runs = [run for run in group.runs if len(run.episodes) > 1]
    if not runs:
        return None
    start = max(run.episodes[min(FEWEST, len(run.episodes)) - 1]["frames"] for run in runs)
    curves = [np.array(curve(run.episodes)) for run in runs]  # each (moments, 2)
    if len(runs) == 1:
        begun = curves[0][:, 0] >= start
        x, y = curves[0][begun].T
        if len(runs[0].episodes) < FEWEST:
            return Line(group.name, x, y)
        error = 1.96 * np.array(curve_errors(runs[0].episodes))[begun]
        return Line(group.name, x, y, y - error, y + error)
    end = min(c[-1, 0] for c in curves)
    if end <= start:  # one seed ended before another had enough games
        return None
    x = np.linspace(start, end, points)
    each = np.stack([np.interp(x, c[:, 0], c[:, 1]) for c in curves])  # (seeds, points)
    return Line(group.name, x, each.mean(0), *interval(each))


def interval_text(group: Group) -> str:
    seeds = sum(len(run.episodes) > 1 for run in group.runs)
    if seeds < 2:
        return "95% interval of the mean over the last 50 games; one seed says nothing about other seeds"
    return "from the worse to the better of two seeds" if seeds == 2 else f"95% bootstrap interval over {seeds} seeds"


def as_json(value: Any) -> str:
    """A value as JSON, for comparisons: JSON has no tuples."""
    return json.dumps(value, sort_keys=True)


def read_audit(path: Path) -> dict[str, Any]:
    """Read the file that `audit.run_audit.save_audit` wrote."""
    try:
        audit: dict[str, Any] = json.loads(path.read_bytes())
        _check_audit(audit)
    except (ValueError, TypeError, KeyError, RecursionError) as broken:
        raise RunError(f"{path} is damaged ({broken}); audit the run again or remove it.") from broken
    return audit


def _check_audit(audit: dict[str, Any]) -> None:
    """Raise unless everything that a report shows is there."""
    scores, _ = audit["scores"], (audit["run"], audit["policy"])
    estimates = [*(scores[name] for name in ("direct_auroc", "g_auroc", "g_spearman")), *scores.get("lag_auroc", [])]
    numbers = [e[part] for e in estimates for part in ("mean", "low", "high") if e[part] is not None]
    numbers += [scores[f"{name}_calibration"]["error"] for name in ("direct", "g")]
    for number in numbers:
        if not is_number(number):
            raise ValueError(f"a score is {number!r}")
