"""`megareward probe GOOD`."""

import json
from dataclasses import dataclass
from pathlib import Path

import tyro

from megareward.cli.parsing import Device, load_torch, parse
from megareward.errors import warn
from megareward.progress import Bar
from megareward.runs.durable import save_file


@dataclass(frozen=True)
class ProbeArgs:
    """Compare the returns of a good player, a random, an idle and the worst one under each form of mega-reward. A form
    whose return is not highest for the good player cannot teach play. Nothing is trained."""

    good: tyro.conf.Positional[Path]
    """Run whose policy is the good player, best one of `megareward train extrinsic --game GAME`."""
    beside: tuple[Path, ...] = ()
    """Other runs of the same game whose policies are compared too, such as agents trained on one of these rewards."""
    maps: Path | None = None
    """Run whose control models make the maps. [default: untrained models]"""
    oracle: int = 0
    """Use true maps instead, following each action for this many steps; 0: off. Mini games only."""
    steps: int = 600
    """Decisions of each player in each game."""
    n_envs: int = 32
    """Games that each player plays in parallel."""
    discount: float = 0.99
    """Discount of the returns."""
    json: Path | None = None
    """Also write the results into this file."""
    device: Device = "auto"


def command(words: list[str]) -> int:
    args: ProbeArgs = parse(ProbeArgs, words, "probe")
    load_torch()

    from megareward.audit.probe import probe, table
    from megareward.training.run import pick_device

    result = probe(
        args.good,
        beside=args.beside,
        maps=args.maps,
        oracle=args.oracle,
        steps=args.steps,
        n_envs=args.n_envs,
        discount=args.discount,
        device=pick_device(args.device),
        warn=warn,
        progress=Bar("steps played"),
    )
    print(table(result), flush=True)
    if args.json is not None:
        save_file(args.json, (json.dumps(result, indent=1) + "\n").encode())
    return 0
