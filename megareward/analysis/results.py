"""The ledger: finished runs as small JSON files under results/runs, written from the runs' own folders."""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from megareward.analysis.published import published, published_score
from megareward.errors import RunError, UsageError
from megareward.quantities import count, short_count
from megareward.runs.folder import RunFolder
from megareward.statistics.bootstrap import interval
from megareward.training.config import RECENT, bearing

LEDGER = Path("results") / "runs"
RECORDS = (LEDGER, *(Path("results") / "experiments" / name for name in ("atari", "atari-long")))
NEEDED = {"game", "method", "seed", "frames", "score", "curve", "config"}
CURVE_POINTS = 200


def add_run(path: Path, ledger: Path = LEDGER) -> Path:
    """Condense a run's folder into one file of the ledger. Recording the same run again replaces its file."""
    summary = summarise(path)
    commit = (summary["provenance"].get("commit") or "unknown")[:8].rstrip("+")
    name = f"{summary['method']}-s{summary['seed']}-{short_count(summary['config']['frames'])}-{commit}.json"
    return write_summary(summary, ledger / summary["game"] / name)


def summarise(path: Path) -> dict[str, Any]:
    """Everything the ledger keeps of a run."""
    folder = RunFolder.open(path)
    record, episodes, metrics = folder.record(), folder.rows("scores.jsonl"), folder.rows("metrics.jsonl")
    if not metrics:
        raise UsageError(f"{path} has no metrics yet; `megareward resume {path}` trains it first.")
    if not episodes:
        raise UsageError(f"{path} has not finished a single game; train it for longer before recording it.")
    config, frames = record["config"], metrics[-1]["frames"]
    last = [e["score"] for e in episodes[-RECENT:]]
    return {
        "game": config["game"],
        "method": shown_method(config),
        "seed": config["seed"],
        "frames": frames,
        "finished": frames >= config["frames"],
        "score": float(np.mean(last)),
        "episodes_in_score": len(last),
        "episodes": len(episodes),
        "evaluations": folder.rows("eval.jsonl"),
        "curve": curve(episodes),
        "config": config,
        "provenance": record["provenance"],
        "processes": folder.rows("processes.jsonl"),
    }


def write_summary(summary: dict[str, Any], target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(dump(summary))
    return target


def shown_method(config: dict[str, Any]) -> str:
    """The method's name; a diagnosis with true control maps in place of learnt ones must not pass for a result."""
    oracle = config.get("control", {}).get("oracle", {}).get("lags", 0) > 0
    return f"{config['method']}-ORACLE" if oracle else str(config["method"])


def curve(episodes: list[dict[str, Any]]) -> list[list[float]]:
    """[frames, mean score of the last 50 games] at no more than 200 moments, evenly spread over the frames."""
    scores = np.array([e["score"] for e in episodes], dtype=float)
    frames = [e["frames"] for e in episodes]
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    moments = np.linspace(frames[0], frames[-1], CURVE_POINTS)
    ends = np.unique(np.searchsorted(frames, moments, side="right"))  # games that are over by then
    starts = np.maximum(ends - RECENT, 0)
    means = (sums[ends] - sums[starts]) / (ends - starts)
    return [[frames[end - 1], round(float(mean), 4)] for end, mean in zip(ends, means, strict=True)]


def dump(summary: dict[str, Any]) -> str:
    """JSON with one line per entry, so that a diff of the ledger can be read."""
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in summary.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read_records(places: Iterable[Path]) -> list[dict[str, Any]]:
    """Every record of a run in these files and folders, by path; other JSON is passed over."""
    files: list[Path] = []
    for place in places:
        if not place.exists():
            raise UsageError(f"{place} does not exist; name records or folders that hold some, such as {LEDGER}.")
        files += sorted(place.rglob("*.json")) if place.is_dir() else [place]
    records = map(read_record, files)
    return [record for record in records if isinstance(record, dict) and record.keys() >= NEEDED]


def usual_records() -> list[Path]:
    """Where the records of Atari lie, as far as there are any."""
    return [place for place in RECORDS if place.exists()]


def read_record(path: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(path.read_text())
    except ValueError as broken:
        raise RunError(f"{path} is not valid JSON ({broken}); record its run again or remove it.") from broken
    return record


def length(record: dict[str, Any]) -> str:
    """How long a run trained; one that is not over yet says so."""
    planned = count(record["config"]["frames"])
    return planned if record.get("finished", True) else f"{count(record['frames'])} of {planned}"


# The table -----------------------------------------------------------------------------------------------------------


COLUMNS = ("random", "human/mnih2015", "ppo/schulman2017", "paper/mega")


def table(records: list[dict[str, Any]]) -> str:
    """One line per game, method, length and settings: the mean over the seeds, whole games, published scores."""
    if not records:
        return "No runs are recorded yet; `megareward results add RUN` records one."
    groups: dict[tuple[str, str, int, str, str], list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        reached = record["config"]["frames"] if record.get("finished", True) else record["frames"]
        settings = json.dumps(bearing({**record["config"], "seed": None}))  # runs of other settings are no seeds
        groups[record["game"], record["method"], reached, length(record), settings].append(record)
    head = ["game", "method", "frames", "seeds", "score", "whole games", *COLUMNS, "paper/same"]
    rows = [head]
    for (game, method, _, frames, _), members in sorted(groups.items()):
        others = [published_score(column, game) for column in COLUMNS]
        others.append(published_score(f"paper/{method}", game) if f"paper/{method}" in published() else None)
        rows.append(
            [game, method, frames, str(len(members)), over_seeds(members), whole_games(members)]
            + ["" if other is None else f"{other:g}" for other in others]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    explained = [
        "score: mean raw score of the last 50 finished games of training, over the seeds; 95% bootstrap interval",
        "whole games: what `megareward eval` found last; mean and standard error over the games of one run",
        *(f"{column}: {published()[column].source}" for column in COLUMNS),
        "paper/same: there, the method of this row",
    ]
    return "\n".join([*lines, "", *explained])


def over_seeds(members: list[dict[str, Any]]) -> str:
    """One seed says nothing about spread, so it gets no interval."""
    scores = [record["score"] for record in members]
    if len(scores) == 1:
        return f"{scores[0]:.4g}"
    low, high = interval(scores)
    return f"{np.mean(scores):.4g} [{low:.4g}, {high:.4g}]"


def whole_games(members: list[dict[str, Any]]) -> str:
    """The last evaluation of the last seed that has one."""
    for record in reversed(members):
        if record.get("evaluations"):
            scores = record["evaluations"][-1]["scores"]
            error = f" +- {np.std(scores, ddof=1) / np.sqrt(len(scores)):.2g}" if len(scores) > 1 else ""
            return f"{np.mean(scores):.4g}{error}"
    return ""
