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
    """What would mega-reward pay a good player, a random one, an idle one and the worst, in each of its forms? A form
    that does not pay the good one most cannot teach play. Nothing is trained."""

    good: tyro.conf.Positional[Path]
    """A run whose policy plays well: best `megareward train extrinsic --game GAME`."""
    beside: tuple[Path, ...] = ()
    """Other runs of this game whose policies play, too, such as agents that were trained on one of these rewards."""
    maps: Path | None = None
    """A run whose control models make the maps. [default: untrained models]"""
    oracle: int = 0
    """True maps instead, following each action for so many steps; mini games only."""
    steps: int = 600
    """Decisions of each player in each game."""
    n_envs: int = 32
    """Games side by side."""
    discount: float = 0.99
    json: Path | None = None
    """Write the table into this file too."""
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
