"""What a run says before anything is built: what is trained, where, and about how long it will take. Free of torch."""

from typing import Any

from megareward.quantities import count, duration
from megareward.training.config import TrainConfig

FRAMES_PER_SECOND = {
    ("cpu", "mini", "control"): 900,
    ("cpu", "mini", "plain"): 3_500,
    ("cpu", "atari", "control"): 60,
    ("cpu", "atari", "plain"): 600,
    ("cuda", "mini", "control"): 15_000,
    ("cuda", "mini", "plain"): 40_000,
    ("cuda", "atari", "control"): 12_000,
    ("cuda", "atari", "plain"): 20_000,
}
"""Of training, measured on two cores and on an H200 with 16 (docs/performance.md): right within a factor of a few
elsewhere, and enough to tell minutes from days. By device, kind of game and whether control models are trained."""


def banner(config: TrainConfig, device: Any) -> str:
    """Two or three sentences. `device` is a torch.device, or its name."""
    kind = str(device).split(":")[0]
    game = "mini" if config.game_row.preset == "mini" else "atari"
    rate = FRAMES_PER_SECOND[kind, game, "control" if config.tracks_control else "plain"]
    score = "on the score" if config.uses_score else "score hidden"
    lines = [
        f"{config.method} on {config.game}, {score}: {count(config.frames)} frames on {kind}, {config.n_envs} "
        f"environments, seed {config.seed}; roughly {duration(config.frames / rate)}, the line below soon knows better."
    ]
    if warmup := config.warmup_iterations * config.frames_per_iteration:
        lines.append(f"The first {count(warmup)} frames are the warm-up: random play, from which only models learn.")
    return "\n".join(lines)
