"""`megareward experiment NAME`."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from megareward.cli.parsing import Count, load_torch, parse
from megareward.errors import RunError, UsageError
from megareward.experiments.plans import EXPERIMENTS, Device, find_experiment, matching

RESULTS = Path("results") / "experiments"
MANY = 10
"""More runs than this need --yes if nothing is recorded in the current folder."""


@dataclass(frozen=True)
class ExperimentArgs:
    """Make every run of an experiment that is not recorded yet, record it, and write the table."""

    name: tyro.conf.Positional[str] = ""
    """Name of an experiment, or several with commas, whose runs form one queue; without a name, all are listed."""
    seeds: int | None = None
    """Seeds of each cell of the table. [default: the experiment's]"""
    frames: Count | None = None
    """Frames of each run. [default: the experiment's]"""
    jobs: int = 0
    """Runs at a time, each in a process of its own; 0: one per core."""
    device: Device = "cpu"
    """Device for runs that are not recorded yet; each record says which device was used."""
    only: str = ""
    """Only runs whose names contain all of these words, separated by commas: mega,mini-pong. Slashes separate
    alternatives: rnd/alive,pong/seaquest. not:WORD leaves out runs whose names contain the word."""
    minutes: float | None = None
    """Stop after so long: runs that train save themselves, and no more are begun. The same command goes on."""
    table: bool = False
    """Train nothing; only write the table of what is recorded."""
    runs: Path = Path("runs") / "experiments"
    """Folder that holds the folders of the runs."""
    results: Path = RESULTS
    """Folder for records and tables."""
    cache: Path | None = None
    """If runs are audited: folder of the games' truth, which is found once per game for all runs. Sets made by
    `megareward truth` are used too. [default: audit-truth beside the runs]"""
    yes: bool = False
    """Start more than 10 runs even if nothing is recorded in the current folder."""


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
    if args.minutes is not None and not args.minutes > 0:
        raise UsageError(f"--minutes is {args.minutes:g}; it must be above 0.")
    experiments = [find_experiment(name) for name in dict.fromkeys(args.name.split(","))]
    runs = sum(len(list(matching(e.cells(args.frames, args.seeds, args.device), args.only))) for e in experiments)
    if runs > MANY and args.results == RESULTS and not (RESULTS.is_dir() or args.yes or args.table):
        raise UsageError(
            f"{args.name} is {runs} runs, and {RESULTS}, where finished ones are recorded, is not in this folder. "
            "Start it in the folder of the project, choose with --only and --seeds, or name a folder with --results; "
            "--yes begins all of them."
        )
    load_torch()

    from megareward.experiments.make import make_experiments

    left = make_experiments(
        experiments,
        seeds=args.seeds,
        frames=args.frames,
        device=args.device,
        only=args.only,
        jobs=args.jobs,
        minutes=args.minutes,
        table_only=args.table,
        runs=args.runs,
        results=args.results,
        cache=args.cache,
    )
    if left:
        what = "failed" if args.minutes is None else "failed or were stopped"
        raise RunError(f"{len(left)} runs {what}, the first is {left[0].name}; start the command again to go on.")
    return 0
