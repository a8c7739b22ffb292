"""What a run prints before anything is built: what is trained, where, and about how long it takes. Free of torch."""

from typing import Any

from megareward.quantities import count, duration
from megareward.training.config import TrainConfig

CPU_FRAMES_PER_SECOND = {("mini", True): 3_000, ("mini", False): 4_000, ("atari", True): 1_300, ("atari", False): 2_500}
"""Rough training speed on two cores, by kind of game and whether control models are trained."""


def frames_per_second(config: TrainConfig, kind: str) -> float:
    """Rough training speed. On a GPU: a fit over numbers of environments to Atari on an H200 with 16 cores."""
    if kind == "cuda":
        return 60_000 * config.n_envs / (config.n_envs + 50)
    return CPU_FRAMES_PER_SECOND["mini" if config.game_row.preset == "mini" else "atari", config.tracks_control]


def banner(config: TrainConfig, device: Any) -> str:
    """Two or three sentences. `device` is a torch.device, or its name."""
    kind = str(device).split(":")[0]
    rate = frames_per_second(config, kind)
    score = "on the score" if config.uses_score else "score hidden"
    lines = [
        f"{config.method} on {config.game}, {score}: {count(config.frames)} frames on {kind}, {config.n_envs} "
        f"environments, seed {config.seed}; roughly {duration(config.frames / rate)}, the line below soon knows better."
    ]
    if warmup := config.warmup_iterations * config.frames_per_iteration:
        lines.append(f"The first {count(warmup)} frames are the warm-up: random play, from which only models learn.")
    return "\n".join(lines)
