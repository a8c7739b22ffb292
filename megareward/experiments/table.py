"""The table of an experiment, from its records: mean over the seeds with a bootstrap interval."""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from megareward.experiments.plans import Cell, Experiment
from megareward.experiments.runner import record_path

RESAMPLES = 10_000


def interval(scores: list[float], seed: int = 0) -> tuple[float, float]:
    """95% bootstrap interval of the mean over seeds."""
    draws = np.random.default_rng(seed).choice(scores, (RESAMPLES, len(scores)))
    low, high = np.percentile(draws.mean(1), [2.5, 97.5])
    return float(low), float(high)


def scores_of(cells: list[Cell], results: Path) -> dict[tuple[str, str], list[float]]:
    """The recorded scores by row and column."""
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    for cell in cells:
        path = record_path(results, cell)
        if path.exists():
            scores[cell.row, cell.column].append(json.loads(path.read_text())["score"])
    return dict(scores)


def markdown(experiment: Experiment, cells: list[Cell], results: Path) -> str:
    """Rows and columns as in the plan; `-` where no run is recorded."""
    scores = scores_of(cells, results)

    def shown(row: str, column: str) -> str:
        found = scores.get((row, column))
        if not found:
            return "-"
        if len(found) == 1:
            return f"{found[0]:.2f}, 1 seed"  # which says nothing about spread
        low, high = interval(found)
        seeds = "" if len(found) == experiment.seeds else f", {len(found)} seeds"
        return f"{np.mean(found):.2f} [{low:.2f}, {high:.2f}]{seeds}"

    columns = list(experiment.columns)
    lines = [
        f"| {experiment.name} | {' | '.join(columns)} |",
        "|---" * (len(columns) + 1) + "|",
        *(f"| {row} | {' | '.join(shown(row, column) for column in columns)} |" for row in experiment.rows),
    ]
    frames = cells[0].config.frames
    note = (
        f"{experiment.question} Mean raw score of the last 50 games after {frames:,} frames, mean over "
        f"{experiment.seeds} seeds with 95% bootstrap intervals over the seeds. Every run is a file beside this table."
    )
    return "\n".join([*lines, "", note, ""])
