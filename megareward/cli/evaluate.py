"""`megareward eval RUN`."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from megareward.cli.parsing import Device, load_torch, parse
from megareward.errors import warn
from megareward.progress import Bar
from megareward.quantities import count


@dataclass(frozen=True)
class EvalArgs:
    """Play whole games with the newest checkpoint of a run, under the protocol it was trained with."""

    run: tyro.conf.Positional[Path]
    """Folder of the run."""
    episodes: int = 50
    """Whole games to play."""
    seed: int = 1_000_000
    """Seed of the games and of the policy's rng; far from the seeds of training."""
    greedy: bool = False
    """Take the likeliest action instead of sampling one."""
    rooms: bool = False
    """Also count the rooms visited (montezuma_revenge only), in other games of the same seed; several times slower."""
    device: Device = "auto"
    out: Path | None = None
    """Append the scores to this file. [default: eval.jsonl in the run's folder]"""


def command(words: list[str]) -> int:
    args: EvalArgs = parse(EvalArgs, words, "eval")
    load_torch()

    from megareward.training.evaluate import evaluate_run, save_evaluation
    from megareward.training.run import pick_device

    result = evaluate_run(
        args.run,
        args.episodes,
        seed=args.seed,
        greedy=args.greedy,
        rooms=args.rooms,
        device=pick_device(args.device),
        warn=warn,
        progress=Bar("games"),
    )
    low, high = min(result.scores), max(result.scores)
    cut = f", {result.cut} of them cut by the time limit" if result.cut else ""
    print(
        f"{result.mean:.4g} +- {result.standard_error:.2g} (mean and standard error of {len(result.scores)} games, "
        f"from {low:g} to {high:g}{cut}) at {count(result.frames)} frames of training",
        flush=True,
    )
    if best := result.best_skill:
        skill, mean, games = best
        print(
            f"Beside it, not the score: the best of the skills, chosen after the fact, is {skill} with {mean:.4g} "
            f"(mean of {games} games)"
        )
    if result.rooms:
        mean, every = result.rooms_visited
        print(f"Rooms: {mean:.1f} in a game, {len(every)} in all ({', '.join(map(str, every))})")
    save_evaluation(result, args.out or args.run / "eval.jsonl")
    return 0
