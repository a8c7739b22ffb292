"""The ledger of recorded runs under results/runs, and the table of all records beside published scores."""

from collections import defaultdict
from pathlib import Path

import numpy as np

from megareward.analysis.published import published, published_score
from megareward.analysis.settings import settings_key
from megareward.quantities import short_count
from megareward.runs.durable import explained
from megareward.runs.folder import RunFolder
from megareward.runs.record import Record
from megareward.statistics.bootstrap import interval
from megareward.statistics.scores import standard_error
from megareward.training.config import read_config

LEDGER = Path("results") / "runs"
RECORDS = (LEDGER, *(Path("results") / "experiments" / name for name in ("atari", "atari-long")))


def add_run(path: Path, ledger: Path = LEDGER) -> Path:
    """Condense a run's folder into one file of the ledger. Recording the same run again replaces its file."""
    read_config(RunFolder.open(path))  # invalid settings are refused, not recorded
    record = Record.of_run(path).needs_score(path)
    commit = str(record.provenance.get("commit") or "unknown")[:8].rstrip("+")
    name = f"{record.method}-s{record.seed}-{short_count(record.config['frames'])}-{commit}.json"
    file = ledger / record.game / name
    with explained(file):
        return record.write(file)


def usual_records() -> list[Path]:
    """The existing files and folders with records of Atari."""
    return [place for place in RECORDS if place.exists()]


# The table -----------------------------------------------------------------------------------------------------------


COLUMNS = ("random", "human/mnih2015", "ppo/schulman2017", "paper/mega")


def table(records: list[Record]) -> str:
    """One line per game, method, length and settings: the mean over the seeds, whole games, published scores."""
    if not records:
        return "No runs are recorded yet; `megareward results add RUN` records one."
    groups: dict[tuple[str, str, int, str, str], list[Record]] = defaultdict(list)
    for record in records:
        reached = record.config["frames"] if record.finished else record.frames
        settings = settings_key(record.config)  # runs with other settings are not seeds of this one
        groups[record.game, record.label, reached, record.length, settings].append(record)
    head = ["game", "method", "frames", "seeds", "score", "whole games", *COLUMNS, "paper/same"]
    rows = [head]
    for (game, method, _, frames, _), members in sorted(groups.items()):
        others = [published_score(column, game) for column in COLUMNS]
        same = f"paper/{members[0].method}"
        others.append(published_score(same, game) if same in published() else None)
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


def over_seeds(members: list[Record]) -> str:
    """Mean score over the seeds as text; a single seed has no interval."""
    scores = [record.score for record in members if record.score is not None]
    if len(scores) < 2:
        return f"{scores[0]:.4g}" if scores else "-"
    low, high = interval(scores)
    return f"{np.mean(scores):.4g} [{low:.4g}, {high:.4g}]"


def whole_games(members: list[Record]) -> str:
    """The last evaluation of the last seed that has one, as text."""
    for record in reversed(members):
        if record.evaluations:
            scores = record.evaluations[-1]["scores"]
            error = f" +- {standard_error(scores):.2g}" if len(scores) > 1 else ""
            return f"{np.mean(scores):.4g}{error}"
    return ""
