"""`megareward truth GAME...`."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from megareward.cli.parsing import load_torch, parse
from megareward.errors import UsageError
from megareward.progress import Bar


@dataclass(frozen=True)
class TruthArgs:
    """Make the truth sets of the benchmark of control maps, and compare their checksums with those recorded."""

    games: tyro.conf.Positional[tuple[str, ...]]
    """Which ones; `all` is every game of the table `all-maps` and the mini games."""
    cache: Path = Path("runs") / "audit-truth"
    """Folder of the sets; what is in it is only checked."""
    processes: int = 0
    """Worker processes that branch Atari games; 0 is one per core."""
    small: bool = False
    """Short sets, made in seconds, to see whether this machine makes the truth that is recorded; nothing is scored on
    them."""
    record: bool = False
    """Keep the checksums of games that have none yet."""


def command(words: list[str]) -> int:
    args: TruthArgs = parse(TruthArgs, words, "truth")
    if not args.games:
        raise UsageError("Which games? `megareward truth GAME...` takes names of games, or `all`.")
    load_torch()

    from megareward.audit.benchmark import make_truth
    from megareward.experiments.plans import BENCHMARK_GAMES

    for game in BENCHMARK_GAMES if args.games == ("all",) else args.games:
        bar = Bar("steps branched")
        made = make_truth(
            game, args.cache, small=args.small, processes=args.processes, record=args.record, progress=bar
        )
        print(f"{made.game:18} {made.steps:5} steps  {made.checksum[:16]}  {made.verdict:16}  {made.path}")
    return 0
