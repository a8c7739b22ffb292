"""Audit the runs of an experiment and keep the scores of their control maps in the records."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from megareward.analysis.results import write_summary
from megareward.audit.run_audit import audit_run
from megareward.experiments.plans import Cell
from megareward.experiments.runner import is_done, record_path
from megareward.progress import Bar
from megareward.training.run import pick_device

Say = Callable[[str], None]


def audit_all(cells: list[Cell], runs: Path, results: Path, say: Say = print) -> list[Cell]:
    """Every finished run that has not been audited. Returns those whose weights are not here any more.

    One after the other, game by game: the truth of a game is found once, with all cores.
    """
    left = [cell for cell in cells if is_done(results, cell) and "audit" not in read(results, cell)]
    gone = [cell for cell in left if not (runs / cell.name).exists()]
    for n, cell in enumerate(left, 1):
        if cell in gone:
            continue
        found = audit_run(
            runs / cell.name,
            cache=runs / "audit-truth",
            device=pick_device("auto"),
            warn=lambda text: print(text, file=sys.stderr),
            progress=Bar("steps branched"),
        )
        write_summary(read(results, cell) | {"audit": found}, record_path(results, cell))
        scores = found["scores"]
        say(
            f"{n} of {len(left)}  {cell.name}: direct control {scores['direct_auroc']['mean']:.3f}, "
            f"g {scores['g_auroc']['mean']:.3f}"
        )
    return gone


def read(results: Path, cell: Cell) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(record_path(results, cell).read_text())
    return record
