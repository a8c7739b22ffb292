"""`megareward audit RUN...`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from megareward.cli.parsing import Device, parse, warn
from megareward.errors import UsageError
from megareward.progress import Bar


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
    """Write all scores into this file too. (Each run's own are in its folder, audit-POLICY.json.)"""
    device: Device = "auto"
    """Where the control models run."""


def command(words: list[str]) -> int:
    args: AuditArgs = parse(AuditArgs, words, "audit")
    if not args.runs:
        raise UsageError("Which run? `megareward audit RUN...` takes the folders that `megareward train` wrote.")
    from megareward.audit.run_audit import audit_run
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
    print(table(records))
    if args.json is not None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(records, indent=1) + "\n")
    return 0
