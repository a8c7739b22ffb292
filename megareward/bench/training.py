"""Frames per second of the emulator alone and of a whole training run, side by side in one process."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import torch

from megareward.envs.atari_config import AtariConfig
from megareward.envs.games import resolve_game
from megareward.envs.interface import BatchedEnv
from megareward.envs.make import make_env
from megareward.training.config import TrainConfig, env_config_class
from megareward.training.loop import Trainer
from megareward.training.provenance import provenance


@dataclass(frozen=True)
class TrainSpeed:
    """One measurement."""

    game: str
    method: str
    device: str
    n_envs: int
    emulator_frames_per_s: float
    """Random actions, the same environments and threads, nothing else."""
    train_frames_per_s: float
    ratio_to_emulator: float
    seconds: dict[str, float]
    """Share of the training time by what it was spent on."""
    peak_gpu_mib: float | None
    provenance: dict[str, object]

    def __str__(self) -> str:
        lines = [
            f"{self.game}, {self.method}, {self.n_envs} environments on {self.device}",
            f"  emulator alone  {self.emulator_frames_per_s:10,.0f} frames/s",
            f"  training        {self.train_frames_per_s:10,.0f} frames/s",
            f"  ratio           {self.ratio_to_emulator:10.2f}",
            *(f"    {name:14}{100 * share:10.0f} %" for name, share in self.seconds.items()),
        ]
        if self.peak_gpu_mib is not None:
            lines.append(f"  GPU memory      {self.peak_gpu_mib:10,.0f} MiB at most")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def emulator_speed(env: BatchedEnv, seconds: float) -> float:
    """Frames per second under uniformly random actions."""
    generator = torch.Generator(env.device).manual_seed(0)
    env.reset(0)

    def steps_until(deadline: float) -> int:
        steps = 0
        while time.perf_counter() < deadline:
            env.send(torch.randint(env.n_actions, (env.n_envs,), generator=generator, device=env.device))
            env.recv()
            steps += 1
        _wait(env.device)
        return steps

    steps_until(time.perf_counter() + 0.2 * seconds)  # episodes drift apart, threads warm up
    begun = time.perf_counter()
    steps = steps_until(begun + seconds)
    return steps * env.n_envs * env.frame_skip / (time.perf_counter() - begun)


def sweep_emulator(
    game: str, n_envs: Sequence[int], threads: Sequence[int], seconds: float, device: torch.device
) -> Iterator[dict[str, object]]:
    """One record per number of environments and threads."""
    game = resolve_game(game)
    settings = env_config_class(game)()
    for N in n_envs:
        for number in threads if isinstance(settings, AtariConfig) else (0,):
            config = replace(settings, threads=number) if isinstance(settings, AtariConfig) else settings
            env = make_env(game, N, config, hide_score=False, device=device)
            try:
                speed = emulator_speed(env, seconds)
            finally:
                env.close()
            where = torch.cuda.get_device_name(env.device) if env.device.type == "cuda" else "cpu"
            yield {"game": game, "n_envs": N, "threads": number, "device": where, "frames_per_s": speed}


def measure_training(config: TrainConfig, device: torch.device, seconds: float) -> TrainSpeed:
    if device.type == "cuda":
        torch.set_num_threads(1)  # as a run does
    trainer = Trainer(config, device)
    try:
        emulator = emulator_speed(trainer.env, seconds)
        trainer.begin()
        trainer.iterate()  # warm-up: kernels are chosen, memory is taken
        begun, frames, spent = time.perf_counter(), trainer.frames, dict[str, float]()
        while time.perf_counter() - begun < seconds:
            numbers, _ = trainer.iterate()
            for name in numbers:
                if name.startswith("seconds/"):
                    spent[name[8:]] = spent.get(name[8:], 0.0) + numbers[name]
        _wait(device)
        elapsed = time.perf_counter() - begun
    finally:
        trainer.env.close()
    training = (trainer.frames - frames) / elapsed
    return TrainSpeed(
        game=config.game,
        method=config.method,
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        n_envs=config.ppo.n_envs,
        emulator_frames_per_s=emulator,
        train_frames_per_s=training,
        ratio_to_emulator=training / emulator,
        seconds={name: value / elapsed for name, value in spent.items()},
        peak_gpu_mib=torch.cuda.max_memory_allocated(device) / 2**20 if device.type == "cuda" else None,
        provenance=provenance(device),
    )


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
