"""The table of an experiment, from its records: mean over the seeds with a bootstrap interval."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from megareward.experiments.plans import Cell, Experiment
from megareward.experiments.runner import record_of, record_path
from megareward.runs.record import Record
from megareward.statistics.bootstrap import interval

AUDITED = {"direct_auroc": "direct, AUROC", "g_auroc": "g, AUROC", "g_spearman": "g, rank correlation"}


def scores_of(cells: list[Cell], results: Path) -> dict[tuple[str, str], list[float]]:
    """The recorded scores by row and column."""
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    for cell in cells:
        if record := record_of(results, cell):
            scores[cell.row, cell.column].append(record.score)
    return dict(scores)


def markdown(experiment: Experiment, cells: list[Cell], results: Path) -> str:
    """Rows and columns as in the plan; `-` where no run is recorded."""
    if experiment.is_audit:
        return audit_markdown(experiment, cells, results)
    scores = scores_of(cells, results)

    def shown(row: str, column: str) -> str:
        found = scores.get((row, column))
        if not found:
            return "-"
        seeds = "" if len(found) == experiment.seeds else f", {count_of_seeds(len(found))}"
        if len(found) == 1:
            return f"{found[0]:.2f}{seeds}"
        low, high = interval(found)
        return f"{np.mean(found):.2f} [{low:.2f}, {high:.2f}]{seeds}"

    columns = list(experiment.columns)
    lines = [
        f"| {experiment.name} | {' | '.join(columns)} |",
        "|---" * (len(columns) + 1) + "|",
        *(f"| {row} | {' | '.join(shown(row, column) for column in columns)} |" for row in experiment.rows),
    ]
    frames = cells[0].config.frames
    seeds = "one seed, which says nothing about spread"
    if experiment.seeds > 1:
        seeds = f"mean over {experiment.seeds} seeds with 95% bootstrap intervals over the seeds"
    note = (
        f"{experiment.question} Mean raw score of the last 50 games after {frames:,} frames, {seeds}. "
        "Every run is a file beside this table."
    )
    return "\n".join([*lines, "", note, ""])


def count_of_seeds(number: int) -> str:
    return "1 seed" if number == 1 else f"{number} seeds"


def audit_markdown(experiment: Experiment, cells: list[Cell], results: Path) -> str:
    """How true the maps are: direct control and g in one place, the first seed that was audited."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for cell in cells:
        path = record_path(results, cell)
        record = Record.read(path) if path.exists() else None
        if record and record.audit:
            found.setdefault((cell.row, cell.column), record.audit["scores"])

    def shown(row: str, column: str, score: str) -> str:
        scores = found.get((row, column))
        if scores is None or scores[score]["mean"] is None:
            return "-"
        one = scores[score]
        return f"{one['mean']:.3f} [{one['low']:.3f}, {one['high']:.3f}]"

    columns = list(experiment.columns)
    lines = [f"| {experiment.name} | | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    for score, name in AUDITED.items():
        for row in experiment.rows:
            lines.append(f"| {name} | {row} | {' | '.join(shown(row, column, score) for column in columns)} |")
    frames = cells[0].config.frames
    note = (
        f"{experiment.question} Control models after {frames:,} frames of random play, one seed, audited on random "
        "play: means over frames with 95% bootstrap intervals over episodes. Every run is a file beside this table."
    )
    return "\n".join([*lines, "", note, ""])
