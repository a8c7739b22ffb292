"""`megareward bench WHAT`: every measurement of speed is a command that anyone can repeat."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from megareward.errors import UsageError, suggestion
from megareward.training.config import TrainConfig, with_preset


@dataclass(frozen=True)
class BenchTrainArgs:
    """Frames per second of training, beside the emulator alone in the same process."""

    game: str = "breakout"
    method: str = "extrinsic"
    preset: str = "many"
    n_envs: int | None = None
    """[default: the preset's]"""
    threads: int = 0
    """Emulator threads; 0 is one per core."""
    seconds: float = 20.0
    """Length of each of the two measurements."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    json: Path | None = None
    """Also write the record into this file."""


def train(words: list[str], parse: Callable[..., Any]) -> int:
    args = parse(BenchTrainArgs, words, "bench train")
    config = with_preset(TrainConfig(method=args.method, game=args.game), args.preset)
    if args.n_envs is not None:
        config = replace(config, ppo=replace(config.ppo, n_envs=args.n_envs))
    if not config.is_mini:
        config = replace(config, env=replace(config.env, threads=args.threads))

    from megareward.bench.training import measure_training
    from megareward.training.run import pick_device

    speed = measure_training(config, pick_device(args.device), args.seconds)
    print(speed)
    if args.json is not None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(speed.as_dict(), indent=1) + "\n")
    return 0


BENCHES: dict[str, Callable[[list[str], Callable[..., Any]], int]] = {"train": train}


def command(words: list[str], parse: Callable[..., Any]) -> int:
    if not words or words[0] not in BENCHES:
        what = f"There is no benchmark '{words[0]}'.{suggestion(words[0], BENCHES)} " if words else ""
        raise UsageError(f"{what}`megareward bench WHAT ...` measures: {', '.join(BENCHES)}.")
    return BENCHES[words[0]](words[1:], parse)
