"""Make an experiment: its runs, their audits where it asks for them, and its table."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from megareward.errors import UsageError
from megareward.experiments.plans import Cell, Device, Experiment, matching
from megareward.experiments.recorded_elsewhere import adopt
from megareward.experiments.runner import Job, is_done, run_all
from megareward.experiments.table import markdown
from megareward.runs.durable import save_file


def make_experiment(
    experiment: Experiment,
    *,
    seeds: int | None = None,
    frames: int | None = None,
    device: Device = "cpu",
    only: str = "",
    jobs: int = 0,
    table_only: bool = False,
    runs: Path,
    results: Path,
    cache: Path | None = None,
) -> list[Cell]:
    """Make every run that neither this nor another experiment has recorded, record it, write the table and print it.
    Returns the runs that failed.

    seeds, frames: in place of the experiment's own, if not None.
    device: where runs that are still to be made train.
    only: words separated by commas; runs are made only if their names contain all of them, but none after `not:`.
    jobs: runs at a time, each a process of its own; 0 is one per core.
    table_only: make no run, only the table of what is recorded.
    runs, results: folders in which each experiment has one of its own, for runs and for records and tables.
    cache: folder of the truth that audits find once for each game. If None, `audit-truth` beside the runs.
    """
    cells = experiment.cells(frames, seeds, device)
    chosen = list(matching(cells, only))
    if not chosen:
        raise UsageError(f"--only {only} matches no run of {experiment.name}; one is called {cells[0].name}.")
    runs, results = runs / experiment.name, results / experiment.name
    results.mkdir(parents=True, exist_ok=True)
    failed = []
    if not table_only:
        audit = () if experiment.is_audit else None
        asked: dict[str, Any] = {"whole_games": experiment.whole_games, "audit": audit, "truth": cache}
        for cell in chosen:
            if not is_done(results, cell) and (source := adopt(Job(cell, runs, results, **asked))):
                print(f"{cell.name} is recorded already; copied from {source}.")
        failed = run_all(chosen, runs, results, jobs or os.cpu_count() or 1, **asked)
        if experiment.is_audit:
            from megareward.experiments.audits import audit_all  # needs torch; the runs are processes of their own

            for cell in audit_all(chosen, runs, results, cache=cache):
                print(f"{cell.name} is recorded without an audit, and its run is not in {runs}; remove the record.")
    if frames:
        experiment = replace(experiment, frames=frames, frames_of={})
    text = markdown(replace(experiment, seeds=seeds or experiment.seeds), cells, results)
    print(f"\n{text}\n")
    save_file(results / "table.md", text.encode())
    print(f"Wrote {results / 'table.md'} ({sum(is_done(results, c) for c in cells)} of {len(cells)} runs).")
    return failed
