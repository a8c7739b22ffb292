"""`megareward audit RUN...`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from megareward.cli.parsing import Device, parse
from megareward.errors import UsageError, warn
from megareward.progress import Bar
from megareward.runs.durable import save_file


@dataclass(frozen=True)
class AuditArgs:
    """Find out by branching the game what each action truly controls, and score the runs' control maps against it."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of runs; several are shown side by side."""
    game: str | None = None
    """Another game with as many actions. [default: the run's own]"""
    policy: Literal["random", "trained"] = "random"
    """Who plays the episodes: uniformly random actions, or the run's newest checkpoint."""
    lags: int = 64
    """Steps for which the effect of an action is followed."""
    frames: int = 300
    """Decisions per episode; it may end before."""
    episodes: int = 8
    seed: int = 2_000_000
    """Of the games; far from the seeds of training and evaluation."""
    cache: Path | None = None
    """Folder of the truth, which is found once. [default: audit-truth beside the run]"""
    processes: int = 0
    """Worker processes that branch Atari games; 0 is one per core."""
    json: Path | None = None
    """Write all scores into this file too."""
    out: Path | None = None
    """Folder of audit-POLICY.json; of several runs, of a folder by each run's name. [default: the run's own]"""
    device: Device = "auto"
    """Where the control models run."""


def command(words: list[str]) -> int:
    args: AuditArgs = parse(AuditArgs, words, "audit")
    if not args.runs:
        raise UsageError("Which run? `megareward audit RUN...` takes the folders that `megareward train` wrote.")
    from megareward.audit.run_audit import audit_run, save_audit
    from megareward.audit.table import table
    from megareward.training.run import pick_device

    records = [
        audit_run(
            run,
            game=args.game,
            policy=args.policy,
            lags=args.lags,
            frames=args.frames,
            episodes=args.episodes,
            seed=args.seed,
            cache=args.cache,
            processes=args.processes,
            device=pick_device(args.device),
            warn=warn,
            progress=Bar("steps branched"),
        )
        for run in args.runs
    ]
    print(table(records), flush=True)
    if args.json is not None:
        save_file(args.json, (json.dumps(records, indent=1) + "\n").encode())
    for run, record in zip(args.runs, records, strict=True):
        elsewhere = args.out and (args.out / record["run"] if len(records) > 1 else args.out)
        save_audit(record, elsewhere or run)
    return 0
