"""`megareward truth GAME...`."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from megareward.cli.parsing import load_torch, parse
from megareward.errors import UsageError
from megareward.progress import Bar


@dataclass(frozen=True)
class TruthArgs:
    """Make the truth sets of the control map benchmark, and compare their checksums with the recorded ones."""

    games: tyro.conf.Positional[tuple[str, ...]]
    """Games to make truth sets of; `all` is every game of the table `all-maps` and the mini games."""
    cache: Path = Path("runs") / "audit-truth"
    """Folder of the sets; sets that it already holds are only checked."""
    processes: int = 0
    """Worker processes that branch Atari games; 0: one per core."""
    small: bool = False
    """Make short sets, in seconds, to check that this machine reproduces the recorded truth. Maps are never scored on
    them."""
    record: bool = False
    """Record the checksums of games that have none yet."""


def command(words: list[str]) -> int:
    args: TruthArgs = parse(TruthArgs, words, "truth")
    if not args.games:
        raise UsageError("Which games? `megareward truth GAME...` takes names of games, or `all`.")
    load_torch()

    from megareward.audit.benchmark import make_truth
    from megareward.experiments.plans import BENCHMARK_GAMES

    for game in BENCHMARK_GAMES if args.games == ("all",) else args.games:
        made = make_truth(
            game,
            args.cache,
            small=args.small,
            processes=args.processes,
            record=args.record,
            progress=Bar("steps branched"),
        )
        print(f"{made.game:18} {made.steps:5} steps  {made.checksum[:16]}  {made.verdict:16}  {made.path}")
    return 0
