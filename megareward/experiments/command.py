"""`megareward experiment NAME`: make the runs, then the table."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from megareward.errors import RunError, UsageError
from megareward.experiments.plans import EXPERIMENTS, Device, find_experiment, matching


@dataclass(frozen=True)
class ExperimentArgs:
    """Make every run of an experiment that is not recorded yet, record it, and write the table."""

    name: tyro.conf.Positional[str] = ""
    """Which one; without a name they are listed."""
    seeds: int | None = None
    """[default: the experiment's]"""
    frames: int | None = None
    """[default: the experiment's]"""
    jobs: int = 0
    """Runs at a time, each a process of its own; 0 is one per core."""
    device: Device = "cpu"
    """Where runs that are still to be made train; the records say which it was."""
    only: str = ""
    """Only runs whose names contain these words, separated by commas: mega,mini-pong."""
    table: bool = False
    """Make no run, only the table of what is recorded."""
    runs: Path = Path("runs") / "experiments"
    """Where the runs live while they are made."""
    results: Path = Path("results") / "experiments"
    """Where records and tables are kept."""


def command(words: list[str], parse: Callable[..., Any]) -> int:
    args = parse(ExperimentArgs, words, "experiment")
    if not args.name:
        for experiment in EXPERIMENTS.values():
            print(f"{experiment.name:12} {len(experiment.cells()):4} runs  {experiment.question}")
        return 0
    for option in ("seeds", "frames"):
        value = getattr(args, option)
        if value is not None and value < 1:
            raise UsageError(f"--{option} is {value}; it must be at least 1.")
    if args.jobs < 0:
        raise UsageError(f"--jobs is {args.jobs}; use 0 (one per core) or more.")
    from megareward.experiments.runner import is_done, run_all
    from megareward.experiments.table import markdown

    experiment = find_experiment(args.name)
    cells = experiment.cells(args.frames, args.seeds, args.device)
    chosen = list(matching(cells, args.only))
    if not chosen:
        raise UsageError(f"--only {args.only} matches no run of {args.name}; one is called {cells[0].name}.")
    results = args.results / experiment.name
    results.mkdir(parents=True, exist_ok=True)
    failed = []
    if not args.table:
        runs = args.runs / experiment.name
        failed = run_all(chosen, runs, results, args.jobs or os.cpu_count() or 1, whole_games=experiment.whole_games)
        if experiment.is_audit:
            from megareward.experiments.audits import audit_all

            for cell in audit_all(chosen, runs, results):
                print(f"{cell.name} is recorded without an audit, and its run is not in {runs}; remove the record.")
    text = markdown(experiment, cells, results)
    (results / "table.md").write_text(text)
    print(f"\n{text}\nWrote {results / 'table.md'} ({sum(is_done(results, c) for c in cells)} of {len(cells)} runs).")
    if failed:
        raise RunError(f"{len(failed)} runs failed, the first is {failed[0].name}; start the command again to retry.")
    return 0
