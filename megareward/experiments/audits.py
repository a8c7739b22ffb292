"""Audit the runs of an experiment and keep the scores of their control maps in the records."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from megareward.audit.run_audit import audit_run, save_audit
from megareward.audit.table import estimate_text
from megareward.errors import warn
from megareward.experiments.plans import Cell
from megareward.experiments.runner import record_of, record_path
from megareward.progress import Bar
from megareward.training.run import pick_device

Say = Callable[[str], None]


def audit_all(cells: list[Cell], runs: Path, results: Path, say: Say = print, cache: Path | None = None) -> list[Cell]:
    """Audit every recorded run that has not been audited, such as those of older records. Returns those whose weights
    are no longer here.

    Runs are audited one after the other, and the truth of a game is found once, with all cores.
    """
    done = [(cell, record) for cell in cells if (record := record_of(results, cell))]
    left = [(cell, record) for cell, record in done if record.audit is None]
    gone = [cell for cell, _ in left if not (runs / cell.name).exists()]
    for n, (cell, record) in enumerate(left, 1):
        if cell in gone:
            continue
        found = audit_run(
            runs / cell.name,
            cache=cache or runs / "audit-truth",
            device=pick_device("auto"),
            warn=warn,
            progress=Bar("steps branched"),
        )
        save_audit(found, runs / cell.name)
        replace(record, audit=found).write(record_path(results, cell))
        scores = found["scores"]
        say(
            f"{n} of {len(left)}  {cell.name}: direct control {estimate_text(scores['direct_auroc'])}, "
            f"g {estimate_text(scores['g_auroc'])}"
        )
    return gone
