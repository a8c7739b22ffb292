"""`megareward bench WHAT`: every measurement of speed is a command that anyone can repeat."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from megareward.envs.atari_config import AtariConfig
from megareward.errors import UsageError, suggestion
from megareward.training.config import TrainConfig, with_preset, without_fast_paths


@dataclass(frozen=True)
class BenchTrainArgs:
    """Frames per second of training and of the emulator alone, by turns in the same process."""

    game: str = "breakout"
    method: str = "extrinsic"
    preset: str = "many"
    n_envs: int | None = None
    """[default: the preset's]"""
    groups: int | None = None
    """Groups of environments that take turns; Atari only. [default: the preset's]"""
    overlap: Literal["auto", "on", "off"] = "auto"
    """Whether control models learn while the next rollout is collected. auto: on a GPU."""
    plain: bool = False
    """Switch off all that is only fast."""
    threads: int = 0
    """Emulator threads of each group; 0 is one per core."""
    seconds: float = 20.0
    """Length of the training that is timed; the emulator alone gets as long."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    json: Path | None = None
    """Also write the record into this file."""


def bench_config(args: "BenchTrainArgs | BenchGrowthArgs") -> TrainConfig:
    config = with_preset(TrainConfig(method=args.method, game=args.game), args.preset)
    config = replace(config, control=replace(config.control, overlap=args.overlap))
    if isinstance(args, BenchTrainArgs) and args.n_envs is not None:
        config = replace(config, ppo=replace(config.ppo, n_envs=args.n_envs))
    if isinstance(config.env, AtariConfig):
        groups = config.env.groups if args.groups is None else args.groups
        config = replace(config, env=replace(config.env, threads=args.threads, groups=groups))
    return without_fast_paths(config) if args.plain else config


def train(words: list[str], parse: Callable[..., Any]) -> int:
    args = parse(BenchTrainArgs, words, "bench train")
    config = bench_config(args)
    from megareward.bench.training import measure_training
    from megareward.training.run import pick_device

    speed = measure_training(config, pick_device(args.device), args.seconds)
    print(speed)
    write_json(args.json, speed.as_dict())
    return 0


@dataclass(frozen=True)
class BenchGrowthArgs:
    """What more environments, finer grids and larger networks cost: one at a time, the others as in the preset."""

    game: str = "breakout"
    method: str = "mega"
    preset: str = "many"
    n_envs: tuple[int, ...] = (8, 32, 128, 256, 512, 1024)
    """Numbers of environments to try. An Atari environment takes about 0.2 s to build."""
    grids: tuple[int, ...] = (2, 4, 7)
    """Rows, and columns, of the control map to try."""
    features: tuple[int, ...] = (256, 1024)
    """Sizes of RTM's codes to try."""
    groups: int | None = None
    overlap: Literal["auto", "on", "off"] = "auto"
    plain: bool = False
    threads: int = 0
    seconds: float = 10.0
    """Of training for each setting."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    json: Path | None = None
    """Also write the records into this file, after each setting anew."""


def growth(words: list[str], parse: Callable[..., Any]) -> int:
    args = parse(BenchGrowthArgs, words, "bench growth")
    config = bench_config(args)
    from megareward.bench.training import measure_growth
    from megareward.training.run import pick_device

    records = []
    sizes = (args.n_envs, args.grids, args.features)
    for speed in measure_growth(config, pick_device(args.device), args.seconds, *sizes):
        print(speed, flush=True)
        records.append(speed.as_dict())
        write_json(args.json, records)
    return 0


@dataclass(frozen=True)
class BenchEmulatorArgs:
    """Frames per second of the environments alone, under random actions."""

    game: str = "breakout"
    n_envs: tuple[int, ...] = (8, 32, 128)
    """Numbers of environments to try."""
    threads: tuple[int, ...] = (0,)
    """Numbers of emulator threads to try; 0 is one per core. Mini games have none."""
    groups: tuple[int, ...] = (1,)
    """Numbers of groups to try; all are kept busy, each with its own threads. Mini games have none."""
    seconds: float = 5.0
    """Length of each measurement."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where mini games are played; Atari games always run on the CPU."""
    json: Path | None = None
    """Also write the records into this file."""


def emulator(words: list[str], parse: Callable[..., Any]) -> int:
    args = parse(BenchEmulatorArgs, words, "bench emulator")
    from megareward.bench.emulator import sweep_emulator
    from megareward.training.run import pick_device

    records = []
    options = (args.n_envs, args.threads, args.groups)
    for record in sweep_emulator(args.game, *options, args.seconds, pick_device(args.device)):
        records.append(record)
        print(
            f"{record['game']:16} {record['n_envs']:7} environments {record['threads']:3} threads "
            f"{record['groups']:3} groups {record['frames_per_s']:14,.0f} frames/s",
            flush=True,
        )
    write_json(args.json, records)
    return 0


@dataclass(frozen=True)
class BenchWrapperArgs:
    """Overhead of the Gymnasium wrapper: steps per second with and without it, under random actions."""

    game: str = "mini-pong"
    methods: tuple[str, ...] = ("count", "rnd", "mega")
    n_envs: int = 8
    seconds: float = 5.0
    """Length of each measurement."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Of the reward's models, and of mini games."""
    json: Path | None = None
    """Also write the records into this file."""


def wrapper(words: list[str], parse: Callable[..., Any]) -> int:
    args = parse(BenchWrapperArgs, words, "bench wrapper")
    from megareward.bench.wrapper import measure_wrapper
    from megareward.training.run import pick_device

    records = []
    for record in measure_wrapper(args.game, args.methods, args.n_envs, args.seconds, pick_device(args.device)):
        records.append(record)
        print(record)
    write_json(args.json, [record.as_dict() for record in records])
    return 0


@dataclass(frozen=True)
class BenchTableArgs:
    """Print all records of a folder as one table."""

    folder: Path = Path("results/bench")


def table(words: list[str], parse: Callable[..., Any]) -> int:
    args = parse(BenchTableArgs, words, "bench table")
    from megareward.bench.table import markdown

    print(markdown(args.folder))
    return 0


def control(words: list[str], parse: Callable[..., Any]) -> int:
    from megareward.bench.control import main

    main(words)
    return 0


def write_json(path: Path | None, record: Any) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=1) + "\n")


BENCHES: dict[str, Callable[[list[str], Callable[..., Any]], int]] = {
    "emulator": emulator,
    "train": train,
    "growth": growth,
    "control": control,
    "wrapper": wrapper,
    "table": table,
}


def command(words: list[str], parse: Callable[..., Any]) -> int:
    if not words or words[0] not in BENCHES:
        what = f"There is no benchmark '{words[0]}'.{suggestion(words[0], BENCHES)} " if words else ""
        raise UsageError(f"{what}`megareward bench WHAT ...` measures: {', '.join(BENCHES)}.")
    return BENCHES[words[0]](words[1:], parse)
