"""`megareward audit RUN...` and `megareward audit --maps MAPS --game GAME`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from megareward.cli.parsing import Device, load_torch, parse
from megareward.errors import UsageError, warn
from megareward.progress import Bar
from megareward.runs.durable import save_file


@dataclass(frozen=True)
class AuditArgs:
    """Score control maps against ground truth: what each action really changes, found by branching the game. The maps
    are those of runs, or your own (--maps)."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of the runs; several are shown side by side."""
    maps: tuple[str, ...] = ()
    """Score maps that do not come from a run: FILE.npz or module:function (docs/benchmark.md describes the format)."""
    game: str | None = None
    """Audit on another game, which must have as many actions; for --maps, their game. [default: the run's own]"""
    policy: Literal["random", "trained"] = "random"
    """Policy that plays the episodes: uniformly random actions, or the run's newest checkpoint."""
    lags: int = 64
    """Steps for which the effect of an action is followed."""
    frames: int = 300
    """Maximum number of decisions per episode."""
    episodes: int = 8
    """Episodes to play."""
    seed: int = 2_000_000
    """Seed of the games; far from those of training and evaluation."""
    cache: Path | None = None
    """Folder that keeps the truth for later audits. [default: audit-truth beside the run; with --maps, in runs]"""
    truth: Path | None = None
    """Use an existing truth set, or a folder of such sets, instead of branching. A set with another game, other
    settings, episodes or lags is refused."""
    processes: int = 0
    """Worker processes that branch Atari games; 0: one per core."""
    json: Path | None = None
    """Also write all scores into this file."""
    out: Path | None = None
    """Folder for audit-POLICY.json; for several runs, one subfolder each, by name. [default: the run's folder]"""
    device: Device = "auto"
    """Device of the control models."""


def command(words: list[str]) -> int:
    args: AuditArgs = parse(AuditArgs, words, "audit")
    if not args.runs and not args.maps:
        raise UsageError("Which run? `megareward audit RUN...` takes the folders that `megareward train` wrote.")
    if args.maps and args.game is None:
        raise UsageError(f"--maps is {args.maps[0]}, but of which game? Add --game GAME.")
    if args.maps and args.policy == "trained":
        raise UsageError("--maps are scored on random play, which is the same for all; leave --policy trained out.")
    if args.truth is not None and args.cache is not None:
        raise UsageError(
            f"--truth {args.truth} is a set made before, --cache {args.cache} a place to make one; use either."
        )
    load_torch()

    from megareward.audit.outside import audit_maps
    from megareward.audit.record import Plan
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
            truth_from=args.truth,
            processes=args.processes,
            device=pick_device(args.device),
            warn=warn,
            progress=Bar("steps branched"),
        )
        for run in args.runs
    ]
    if args.maps:
        records += audit_maps(
            args.maps,
            str(args.game),
            Plan(args.policy, args.episodes, args.frames, args.lags, args.seed),
            cache=args.cache or Path("runs") / "audit-truth",
            truth_from=args.truth,
            processes=args.processes,
            device=pick_device(args.device),
            progress=Bar("steps branched"),
        )
        warn(f"Truth: {records[-1]['truth']}, checksum {records[-1]['checksum']['verdict']}.")
    print(table(records), flush=True)
    if args.json is not None:
        save_file(args.json, (json.dumps(records, indent=1) + "\n").encode())
    for run, record in zip(args.runs, records, strict=False):  # those of --maps have no run
        elsewhere = args.out and (args.out / record["run"] if len(args.runs) > 1 else args.out)
        save_audit(record, elsewhere or run)
    return 0
