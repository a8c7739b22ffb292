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
    """Find out by branching the game what each action truly controls, and score control maps against it: those of runs,
    or anybody's."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of runs; several are shown side by side."""
    maps: tuple[str, ...] = ()
    """Maps that are not of a run: FILE.npz or module:function; docs/benchmark.md says what is in them."""
    game: str | None = None
    """Another game with as many actions; for --maps, the game. [default: the run's own]"""
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
    """Folder of the truth, which is found once. [default: audit-truth beside the run; for --maps, in runs]"""
    truth: Path | None = None
    """A truth set made before, or a folder of such: nothing is branched, and a set of other games, settings, episodes
    or lags is refused."""
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
