"""Frames per second of a whole training run and of the emulator alone, measured alternately in one process."""

import gc
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from megareward.bench.emulator import play_randomly
from megareward.envs.interface import BatchedEnv
from megareward.runs.checkpoint import save_checkpoint
from megareward.runs.provenance import provenance
from megareward.training.config import TrainConfig, create_run
from megareward.training.logger import Logger
from megareward.training.loop import Trainer
from megareward.training.memory import host_mib, keep_freed_memory
from megareward.training.parts import make_game
from megareward.training.saving import state_of, tensors_of

NAMES = {
    "emulate": "emulator wait",
    "act": "acting",
    "track": "tracking",
    "reward": "reward",
    "learn": "PPO update",
    "control": "control update",
    "log": "logging",
    "save": "checkpoint",
}
"""Names of phases: in the loop's clock, and in a table."""

WARM_UP = 4
"""Iterations before any measurement: kernels are compiled and chosen, graphs captured, memory allocated."""


@dataclass(frozen=True)
class TrainSpeed:
    """One measurement of training speed."""

    game: str
    method: str
    device: str
    n_envs: int
    groups: int
    rollout: int
    overlap: bool
    """Whether the control models learnt while the next rollout was collected."""
    grid: str | None
    """Cells of the control map, and RTM's number of features; None if no control models run."""
    features: int | None
    emulator_frames_per_s: float
    """Speed of the same environments and threads alone, under random actions."""
    train_frames_per_s: float
    """Speed of training, logs included, checkpoints not."""
    ratio_to_emulator: float
    breakdown: dict[str, float]
    """Share of the time by phase, from rollouts that synchronise with the device at every lap; work that runs beside
    the games counts only while they wait for it. `checkpoint`: at the run's own interval."""
    emulator_segments: list[float]
    train_segments: list[float]
    """Frames per second of each segment; their spread shows how reliable the ratio is."""
    checkpoint_s: float
    checkpoint_mib: float
    peak_gpu_mib: float | None
    """Reserved GPU memory, CUDA graphs included."""
    host_mib: float
    """Resident memory at the end."""
    provenance: dict[str, Any]

    def __str__(self) -> str:
        grouped = f" in {self.groups} groups" if self.groups > 1 else ""
        models = f", {self.grid} cells, {self.features} features" if self.grid else ""
        beside = ", overlapped" if self.overlap else ""
        lines = [
            f"{self.game}, {self.method}, {self.n_envs} environments{grouped} on {self.device}{models}{beside}",
            f"  emulator alone  {self.emulator_frames_per_s:10,.0f} frames/s",
            f"  training        {self.train_frames_per_s:10,.0f} frames/s",
            f"  ratio           {self.ratio_to_emulator:10.2f}",
            *(f"    {name:14}{100 * share:10.1f} %" for name, share in self.breakdown.items()),
            f"  checkpoint      {self.checkpoint_s:10.2f} s, {self.checkpoint_mib:,.0f} MiB",
            f"  host memory     {self.host_mib:10,.0f} MiB",
        ]
        if self.peak_gpu_mib is not None:
            lines.append(f"  GPU memory      {self.peak_gpu_mib:10,.0f} MiB at most")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Measured:
    """A training run whose iterations are timed, logs included."""

    def __init__(self, trainer: Trainer, logger: Logger) -> None:
        self.trainer, self.logger = trainer, logger

    def iterate(self, spent: dict[str, float]) -> None:
        numbers, episodes = self.trainer.iterate()
        begun = time.perf_counter()
        self.logger.log(self.trainer.frames, numbers, episodes, self.trainer.score_book.mean)
        spent["log"] = spent.get("log", 0.0) + time.perf_counter() - begun
        for name, value in numbers.items():
            if name.startswith("seconds/"):
                spent[name[8:]] = spent.get(name[8:], 0.0) + value

    def train(self, seconds: float, spent: dict[str, float]) -> tuple[int, float]:
        """Train whole iterations for about so many seconds. Returns frames and seconds."""
        begun, frames = time.perf_counter(), self.trainer.frames
        while time.perf_counter() - begun < seconds:
            self.iterate(spent)
        return self.trainer.frames - frames, time.perf_counter() - begun


def measure_training(
    config: TrainConfig, device: torch.device, seconds: float, turns: int = 2, env: BatchedEnv | None = None
) -> TrainSpeed:
    """Emulator, training, emulator, training, emulator; then some rollouts under a precise clock, and a checkpoint.

    The warm-up of the play protocol is left out, so that PPO learns from the first rollout on. `env`: existing
    games, which stay open.
    """
    if device.type == "cuda":  # as a run does
        torch.set_num_threads(1)
        torch.cuda.reset_peak_memory_stats(device)
    else:
        keep_freed_memory()
    config = replace(config, warmup_steps=0, frames=10**9)
    trainer = Trainer(config, device, env)
    played: list[tuple[int, float]] = []
    trained: list[tuple[int, float]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = create_run(Path(scratch) / "run", config, {})
        logger = Logger(folder, 0, config.frames, tensorboard=True, quiet=True)
        run = Measured(trainer, logger)
        with closing(trainer.env) if env is None else nullcontext(), closing(logger):
            trainer.begin()
            for _ in range(WARM_UP):
                run.iterate({})
            play_randomly(trainer.env, 0.2 * seconds)  # episodes drift apart
            for _ in range(turns):
                played.append(play_randomly(trainer.env, seconds / (turns + 1)))
                trained.append(run.train(seconds / turns, {}))
            played.append(play_randomly(trainer.env, seconds / (turns + 1)))
            trainer.precise_clock, spent = True, dict[str, float]()
            _, elapsed = run.train(0.25 * seconds, spent)
            begun = time.perf_counter()
            saved = save_checkpoint(folder.checkpoints, trainer.frames, tensors_of(trainer), state_of(trainer))
            checkpoint_s = time.perf_counter() - begun
            checkpoint_mib = sum(file.stat().st_size for file in saved.iterdir()) / 2**20
    shares = {name: value / elapsed for name, value in spent.items()}
    shares["save"] = checkpoint_s / (60 * config.checkpoint_minutes + checkpoint_s)
    emulator, training = rate(played), rate(trained)
    models = config.control if config.tracks_control else None
    return TrainSpeed(
        game=config.game,
        method=config.method,
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        n_envs=config.n_envs,
        groups=trainer.env.n_groups,
        rollout=config.rollout_steps,
        overlap=config.overlaps_on(device.type),
        grid=f"{models.H}x{models.W}" if models else None,
        features=models.rtm.features if models else None,
        emulator_frames_per_s=emulator,
        train_frames_per_s=training,
        ratio_to_emulator=training / emulator,
        breakdown={label: shares.get(name, 0.0) for name, label in NAMES.items()},
        emulator_segments=[frames / s for frames, s in played],
        train_segments=[frames / s for frames, s in trained],
        checkpoint_s=checkpoint_s,
        checkpoint_mib=checkpoint_mib,
        peak_gpu_mib=torch.cuda.max_memory_reserved(device) / 2**20 if device.type == "cuda" else None,
        host_mib=host_mib(),
        provenance=provenance(device),
    )


def rate(segments: list[tuple[int, float]]) -> float:
    return sum(frames for frames, _ in segments) / sum(seconds for _, seconds in segments)


def measure_growth(
    config: TrainConfig,
    device: torch.device,
    seconds: float,
    n_envs: Sequence[int],
    grids: Sequence[int],
    features: Sequence[int],
) -> Iterator[TrainSpeed]:
    """How speed and memory grow with each of the three, the other two as in `config`."""
    control = config.control
    for N in n_envs:
        yield measure_training(replace(config, n_envs=N), device, seconds, turns=1)
    for cells in grids:
        yield measure_training(replace(config, control=replace(control, H=cells, W=cells)), device, seconds, turns=1)
    for size in features:
        rtm = replace(control.rtm, features=size)
        yield measure_training(replace(config, control=replace(control, rtm=rtm)), device, seconds, turns=1)


def measure_methods(configs: Sequence[TrainConfig], device: torch.device, seconds: float) -> Iterator[TrainSpeed]:
    """Measure one method after the other on the same emulators, since these take longer to build than a method to
    measure. The score is painted out, for all methods alike."""
    hidden = replace(configs[0], show_score="no")
    with closing(make_game(hidden, hidden.n_envs, device, in_groups=True)) as env:
        for config in configs:
            yield measure_training(config, device, seconds, env=env)
            gc.collect()  # its networks and graphs, before the next method's memory is counted
            if device.type == "cuda":
                torch.cuda.empty_cache()
