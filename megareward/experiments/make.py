"""Make experiments: their runs, their audits where they ask for them, and their tables."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from megareward.errors import UsageError
from megareward.experiments.plans import Cell, Device, Experiment, matching
from megareward.experiments.recorded_elsewhere import adopt_all, each_once
from megareward.experiments.runner import Job, is_done, run_jobs
from megareward.experiments.table import markdown
from megareward.runs.durable import save_file


@dataclass(frozen=True)
class Plan:
    """One experiment and which of its runs are to be made where."""

    experiment: Experiment
    cells: list[Cell]
    """All of its table."""
    chosen: list[Cell]
    runs: Path
    results: Path
    cache: Path | None

    def jobs(self) -> list[Job]:
        audit = () if self.experiment.is_audit else None
        asked: dict[str, Any] = {"whole_games": self.experiment.whole_games, "metrics": self.experiment.metrics}
        asked |= {"audit": audit, "truth": self.cache}
        return [Job(cell, self.runs, self.results, **asked) for cell in self.chosen]

    def audit(self) -> None:
        """What was recorded without an audit, by runs that are still there."""
        from megareward.experiments.audits import audit_all  # needs torch; the runs are processes of their own

        for cell in audit_all(self.chosen, self.runs, self.results, cache=self.cache):
            print(f"{cell.name} is recorded without an audit, and its run is not in {self.runs}; remove the record.")

    def tabulate(self) -> None:
        text = markdown(self.experiment, self.cells, self.results)
        print(f"\n{text}\n")
        path, recorded = self.results / "table.md", sum(is_done(self.results, cell) for cell in self.cells)
        save_file(path, text.encode())
        print(f"Wrote {path} ({recorded} of {len(self.cells)} runs).")


def make_experiments(
    experiments: Sequence[Experiment],
    *,
    seeds: int | None = None,
    frames: int | None = None,
    device: Device = "cpu",
    only: str = "",
    jobs: int = 0,
    minutes: float | None = None,
    table_only: bool = False,
    runs: Path,
    results: Path,
    cache: Path | None = None,
) -> list[Cell]:
    """Make every run that neither these nor other experiments have recorded, record it, write the tables and print
    them. Returns the runs that failed or were stopped.

    seeds, frames: in place of the experiment's own, if not None.
    device: where runs that are still to be made train.
    only: see `plans.matching`.
    jobs: runs at a time, each a process of its own; 0 is one per core.
    minutes: after so long runs that train save themselves and stop, and no more are begun.
    table_only: make no run, only the tables of what is recorded.
    runs, results: folders in which each experiment has one of its own, for runs and for records and tables.
    cache: folder of the truth that audits find once for each game. If None, `audit-truth` beside the runs.
    """
    plans = []
    for experiment in experiments:
        cells = experiment.cells(frames, seeds, device)
        shown = replace(experiment, seeds=seeds or experiment.seeds)
        if frames:
            shown = replace(shown, frames=frames, frames_of={})
        folders = runs / experiment.name, results / experiment.name
        plans.append(Plan(shown, cells, list(matching(cells, only)), *folders, cache))
    if not any(plan.chosen for plan in plans):
        names = " or ".join(experiment.name for experiment in experiments)
        raise UsageError(f"--only {only} matches no run of {names}; one is called {plans[0].cells[0].name}.")
    for plan in plans:
        plan.results.mkdir(parents=True, exist_ok=True)
    failed: list[Job] = []
    if not table_only:
        wanted = [job for plan in plans for job in plan.jobs()]
        adopt_all(wanted)
        to_make = wanted if len(plans) == 1 else each_once(wanted)
        failed = run_jobs(to_make, jobs or os.cpu_count() or 1, minutes=minutes)
        adopt_all(wanted)
        for plan in plans:
            if plan.experiment.is_audit:
                plan.audit()
    for plan in plans:
        plan.tabulate()
    return [job.cell for job in failed]
