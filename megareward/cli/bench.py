"""`megareward bench WHAT`: every measurement of speed is a command that anyone can repeat."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from megareward.bench.settings import bench_config
from megareward.cli.parsing import Device, load_torch, option, parse
from megareward.errors import UsageError, suggestion
from megareward.runs.durable import save_file

TIMED_METHODS = (
    *("extrinsic", "alive", "count", "rnd", "curiosity", "emp", "sto", "div", "dir", "mega-count", "mega-direct"),
    "mega",
)
"""Columns of the paper's tables, the cheap ones first."""


@dataclass(frozen=True)
class EmulatorArgs:
    """Frames per second of the environments alone, under random actions."""

    game: str = "breakout"
    n_envs: tuple[int, ...] = (8, 32, 128)
    """Numbers of environments to try."""
    threads: tuple[int, ...] = (0,)
    """Numbers of emulator threads to try; 0: one per core. Mini games have none."""
    groups: tuple[int, ...] = (1,)
    """Numbers of groups of environments to try; all run at once, each with its own threads. Mini games have none."""
    seconds: float = 5.0
    """Length of each measurement."""
    device: Device = "auto"
    """Device of mini games; Atari games always run on the CPU."""
    json: Path | None = None
    """Also write the records into this file."""


def emulator(words: list[str]) -> None:
    args: EmulatorArgs = parse_sizes(EmulatorArgs, words, "bench emulator")
    from megareward.bench.emulator import sweep_emulator
    from megareward.training.run import pick_device

    records = []
    sizes = (args.n_envs, args.threads, args.groups)
    for record in sweep_emulator(args.game, *sizes, args.seconds, pick_device(args.device)):
        records.append(record)
        print(
            f"{record['game']:16} {record['n_envs']:7} environments {record['threads']:3} threads "
            f"{record['groups']:3} groups {record['frames_per_s']:14,.0f} frames/s",
            flush=True,
        )
    write_json(args.json, records)


@dataclass(frozen=True)
class TrainArgs:
    """Frames per second of training and of the emulator alone, measured alternately in one process."""

    game: str = "breakout"
    method: str = "extrinsic"
    preset: str = "many"
    n_envs: int | None = None
    """Number of environments. [default: the preset's]"""
    groups: int | None = None
    """Groups of environments that take turns; Atari only. [default: the preset's]"""
    overlap: Literal["auto", "on", "off"] = "auto"
    """Whether control models learn while the next rollout is collected. auto: on a GPU."""
    plain: bool = False
    """Switch off all that only saves time: CUDA graphs, bfloat16, fused kernels, overlap, groups."""
    threads: int = 0
    """Emulator threads per group; 0: one per core."""
    seconds: float = 20.0
    """Seconds of training to time; the emulator alone is timed for as long."""
    device: Device = "auto"
    json: Path | None = None
    """Also write the record into this file."""


def train(words: list[str]) -> None:
    args: TrainArgs = parse_sizes(TrainArgs, words, "bench train")
    config = bench_config(
        args.method,
        args.game,
        args.preset,
        n_envs=args.n_envs,
        groups=args.groups,
        threads=args.threads,
        overlap=args.overlap,
        plain=args.plain,
    )
    from megareward.bench.training import measure_training
    from megareward.training.run import pick_device

    speed = measure_training(config, pick_device(args.device), args.seconds)
    print(speed)
    write_json(args.json, speed.as_dict())


@dataclass(frozen=True)
class GrowthArgs:
    """Cost of more environments, finer grids and larger networks: one varies at a time, the others are the preset's."""

    game: str = "breakout"
    method: str = "mega"
    preset: str = "many"
    n_envs: tuple[int, ...] = (8, 32, 128, 256, 512, 1024)
    """Numbers of environments to try. An Atari environment takes about 0.2 s to build."""
    grids: tuple[int, ...] = (2, 4, 7)
    """Sides of the control map to try: 4 is a grid of 4 x 4 cells."""
    features: tuple[int, ...] = (256, 1024)
    """Numbers of RTM's features to try (`rtm.features`)."""
    groups: int | None = None
    overlap: Literal["auto", "on", "off"] = "auto"
    plain: bool = False
    threads: int = 0
    seconds: float = 10.0
    """Seconds of training for each setting."""
    device: Device = "auto"
    json: Path | None = None
    """Also write the records into this file; it is rewritten after each setting."""


def growth(words: list[str]) -> None:
    args: GrowthArgs = parse_sizes(GrowthArgs, words, "bench growth")
    config = bench_config(
        args.method,
        args.game,
        args.preset,
        groups=args.groups,
        threads=args.threads,
        overlap=args.overlap,
        plain=args.plain,
    )
    from megareward.bench.training import measure_growth
    from megareward.training.run import pick_device

    records = []
    sizes = (args.n_envs, args.grids, args.features)
    for speed in measure_growth(config, pick_device(args.device), args.seconds, *sizes):
        print(speed, flush=True)
        records.append(speed.as_dict())
        write_json(args.json, records)


@dataclass(frozen=True)
class MethodsArgs:
    """The paper's table of running times: every method on the same emulators, one after the other."""

    game: str = "seaquest"
    methods: tuple[str, ...] = TIMED_METHODS
    """Methods to measure."""
    preset: str = "many"
    n_envs: int | None = 256
    groups: int | None = None
    threads: int = 0
    seconds: float = 10.0
    """Seconds of training for each method; the emulator alone is timed for as long."""
    deterministic: bool = False
    """Use only deterministic kernels, to measure what `train --deterministic` costs."""
    device: Device = "auto"
    json: Path | None = None
    """Also write the records into this file; it is rewritten after each method."""
    table: Path | None = None
    """Measure nothing; print the table of this file of records."""


def methods(words: list[str]) -> None:
    args: MethodsArgs = parse_sizes(MethodsArgs, words, "bench methods")
    from megareward.bench.table import running_times

    if args.table:
        print(running_times(args.table))
        return
    configs = [
        bench_config(name, args.game, args.preset, n_envs=args.n_envs, groups=args.groups, threads=args.threads)
        for name in dict.fromkeys(args.methods)
    ]
    for config in configs:
        if config.method_row.starts_from:
            raise UsageError(f"{config.method} starts from a finished run; name methods that begin by themselves.")
    from megareward.bench.training import measure_methods
    from megareward.cuda.determinism import deterministic
    from megareward.training.run import pick_device

    records = []
    with deterministic(args.deterministic):
        for speed in measure_methods(configs, pick_device(args.device), args.seconds):
            print(speed, flush=True)
            records.append(speed.as_dict() | {"deterministic": args.deterministic})
            write_json(args.json, records)


@dataclass(frozen=True)
class ControlArgs:
    """Microseconds per transition of the control models: the paper's plain form and ours, side by side in one run."""

    device: Device = "cpu"
    batch: tyro.conf.UseAppendAction[tuple[int, ...]] = ()
    """Transitions per gradient step; may be given several times. [default: 256 and 1024 on a GPU, 16 on a CPU]"""
    envs: int | None = None
    """Environments per step of inference. [default: 256 on a GPU, 16 on a CPU]"""
    seconds: float | None = None
    """Seconds per measurement. [default: 0.5 on a GPU, 4 on a CPU]"""
    variants: str = ""
    """all, or names from bench/control_variants.py, separated by commas: plain,once. [default: by device]"""
    budget: float = 170.0
    """Time limit in seconds; variants with torch.compile are skipped if less than a minute of it is left."""
    profile: bool = False
    """Show where the time of the fastest training step goes. [default: on a GPU]"""
    threads: int | None = None
    """CPU threads."""
    json: Path | None = None
    """Also write everything into this file."""


def control(words: list[str]) -> None:
    defaults = ControlArgs(profile=option(words, "device", "cpu").startswith("cuda"))
    args: ControlArgs = parse_sizes(ControlArgs, words, "bench control", default=defaults)
    import torch

    from megareward.bench.control import bench_control
    from megareward.bench.control_variants import VARIANTS
    from megareward.training.run import pick_device

    if args.threads:
        torch.set_num_threads(args.threads)
    record = bench_control(
        pick_device(args.device),
        args.batch,
        args.envs,
        tuple(VARIANTS) if args.variants == "all" else tuple(name for name in args.variants.split(",") if name),
        args.seconds,
        args.budget,
        args.profile,
    )
    write_json(args.json, record)


@dataclass(frozen=True)
class WrapperArgs:
    """Overhead of the Gymnasium wrapper: steps per second with and without it, under random actions."""

    game: str = "mini-pong"
    methods: tuple[str, ...] = ("count", "rnd", "mega")
    n_envs: int = 8
    seconds: float = 5.0
    """Length of each measurement."""
    device: Device = "auto"
    """Device of the reward's models and of mini games."""
    json: Path | None = None
    """Also write the records into this file."""


def wrapper(words: list[str]) -> None:
    args: WrapperArgs = parse_sizes(WrapperArgs, words, "bench wrapper")
    from megareward.bench.wrapper import measure_wrapper
    from megareward.training.run import pick_device

    records = []
    for record in measure_wrapper(args.game, args.methods, args.n_envs, args.seconds, pick_device(args.device)):
        records.append(record)
        print(record)
    write_json(args.json, [record.as_dict() for record in records])


@dataclass(frozen=True)
class TableArgs:
    """Print all records of a folder as one table."""

    folder: Path = Path("results/bench")


def table(words: list[str]) -> None:
    args: TableArgs = parse_sizes(TableArgs, words, "bench table")
    from megareward.bench.table import markdown

    print(markdown(args.folder))


def parse_sizes(kind: Any, words: list[str], command: str, default: Any = None) -> Any:
    """Parse, and refuse sizes that cannot be measured before anything is built."""
    args = parse(kind, words, command, default)
    for name, (low, high) in LIMITS.items():
        given = getattr(args, name, None)
        for value in given if isinstance(given, tuple) else () if given is None else (given,):
            if not low <= value <= high:
                raise UsageError(f"--{name.replace('_', '-')} is {value}; it must lie between {low:g} and {high:g}.")
    return args


def write_json(path: Path | None, record: Any) -> None:
    if path is not None:
        save_file(path, (json.dumps(record, indent=1) + "\n").encode())


LIMITS = {
    "n_envs": (1, 65_536),
    "envs": (1, 65_536),
    "batch": (2, 65_536),
    "threads": (0, 1024),
    "groups": (1, 1024),
    "grids": (1, 84),
    "features": (1, 65_536),
    "seconds": (0.001, 86_400),
    "budget": (0, 86_400),
}
"""Smallest and largest value of each size, by the option's name."""

BENCHES: dict[str, Callable[[list[str]], None]] = {
    "emulator": emulator,
    "train": train,
    "growth": growth,
    "methods": methods,
    "control": control,
    "wrapper": wrapper,
    "table": table,
}


USAGE = """usage: megareward bench WHAT [OPTIONS]

emulator   frames per second of the environments alone
train      frames per second of training beside those of the emulator
growth     what more environments, finer grids and larger networks cost
methods    running times of all methods for the paper's 80M frames
control    microseconds per transition of the control models
wrapper    overhead of the Gymnasium wrapper
table      all records of a folder as one table

`megareward bench WHAT --help` explains one."""


def command(words: list[str]) -> int:
    if words and words[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    if not words or words[0] not in BENCHES:
        what = f"There is no benchmark '{words[0]}'.{suggestion(words[0], BENCHES)} " if words else ""
        raise UsageError(f"{what}`megareward bench WHAT ...` measures: {', '.join(BENCHES)}.")
    if not {"-h", "--help"} & set(words):
        load_torch()
    BENCHES[words[0]](words[1:])
    return 0
