"""`megareward experiment NAME`."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from megareward.cli.parsing import Count, load_torch, parse
from megareward.errors import RunError, UsageError
from megareward.experiments.plans import EXPERIMENTS, Device, find_experiment, matching

RESULTS = Path("results") / "experiments"
MANY = 10
"""Runs that are not begun unasked."""


@dataclass(frozen=True)
class ExperimentArgs:
    """Make every run of an experiment that is not recorded yet, record it, and write the table."""

    name: tyro.conf.Positional[str] = ""
    """Which one; without a name they are listed."""
    seeds: int | None = None
    """[default: the experiment's]"""
    frames: Count | None = None
    """[default: the experiment's]"""
    jobs: int = 0
    """Runs at a time, each a process of its own; 0 is one per core."""
    device: Device = "cpu"
    """Where runs that are still to be made train; the records say which it was."""
    only: str = ""
    """Only runs whose names contain these words, separated by commas: mega,mini-pong. One of several is enough where
    they are separated by slashes: rnd/alive,pong/seaquest. not:WORD stands for a word that they do not contain."""
    table: bool = False
    """Make no run, only the table of what is recorded."""
    runs: Path = Path("runs") / "experiments"
    """Where the runs live while they are made."""
    results: Path = RESULTS
    """Where records and tables are kept."""
    cache: Path | None = None
    """Folder of the truth of games, where runs are audited: of each game it is found once, for all runs. Sets made by
    `megareward truth` are used, too. [default: audit-truth beside the runs]"""
    yes: bool = False
    """Start many runs also where none is recorded yet."""


def command(words: list[str]) -> int:
    args: ExperimentArgs = parse(ExperimentArgs, words, "experiment")
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
    experiment = find_experiment(args.name)
    runs = len(list(matching(experiment.cells(args.frames, args.seeds, args.device), args.only)))
    if runs > MANY and args.results == RESULTS and not (RESULTS.is_dir() or args.yes or args.table):
        raise UsageError(
            f"{args.name} is {runs} runs, and {RESULTS}, where finished ones are recorded, is not in this folder. "
            "Start it in the folder of the project, choose with --only and --seeds, or name a folder with --results; "
            "--yes begins all of them."
        )
    load_torch()

    from megareward.experiments.make import make_experiment

    failed = make_experiment(
        experiment,
        seeds=args.seeds,
        frames=args.frames,
        device=args.device,
        only=args.only,
        jobs=args.jobs,
        table_only=args.table,
        runs=args.runs,
        results=args.results,
        cache=args.cache,
    )
    if failed:
        raise RunError(f"{len(failed)} runs failed, the first is {failed[0].name}; start the command again to retry.")
    return 0
