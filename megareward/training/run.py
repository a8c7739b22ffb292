"""Start a run in a new folder, or resume one."""

import time
from pathlib import Path
from typing import Any

import torch

from megareward.cuda.determinism import deterministic
from megareward.envs.interface import BatchedEnv
from megareward.errors import UsageError, warn
from megareward.runs.checkpoint import newest_state
from megareward.runs.folder import RunFolder
from megareward.runs.provenance import provenance
from megareward.training.banner import banner
from megareward.training.config import TrainConfig, create_run, read_config
from megareward.training.evaluate import other_settings
from megareward.training.loop import Trainer
from megareward.training.parts import make_game
from megareward.training.process import train_to_the_end
from megareward.training.start_from import require_source, take_over
from megareward.training.tracking import check_tracker
from megareward.waiting import waiting


def pick_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda was asked for, but torch sees no GPU; use --device cpu or auto.")
    return torch.device(name)


def start(
    config: TrainConfig, out: Path, *, env: BatchedEnv | None = None, numbered: bool = False, **how: Any
) -> RunFolder:
    """Train a new run in a new folder. `env` replaces the game the config names. `numbered`: where `out` exists, the
    first free of out-2, out-3, ... is taken. `how`: see `train_to_the_end`."""
    begun = time.monotonic()  # before the games are built, which takes a minute where they are many
    device = pick_device(config.device)
    require_source(config)
    check_tracker(how.get("track", "none"))
    if not how.get("quiet"):
        warn(banner(config, device))
    with deterministic(config.deterministic):
        trainer = make_trainer(config, device, env)  # before the folder: a run that cannot begin leaves nothing behind
        source, files = take_over(trainer) if config.start_from else (None, None)
        folder = create_run(out, config, provenance(device), source, files, numbered)
        train_to_the_end(folder, trainer, begun=begun, **how)
    return folder


def create(config: TrainConfig, out: Path) -> RunFolder:
    """Create the folder of a new run without training it; `resume` does that."""
    device = pick_device(config.device)
    require_source(config)
    if config.start_from is None:
        return create_run(out, config, provenance(device))
    trainer = Trainer(config, device)
    trainer.env.close()
    return create_run(out, config, provenance(device), *take_over(trainer))


def make_trainer(config: TrainConfig, device: torch.device, env: BatchedEnv | None) -> Trainer:
    env = env or make_game(config, config.n_envs, device, in_groups=True)
    with waiting("Building the networks"):
        return Trainer(config, device, env)


def resume(
    path: Path,
    *,
    frames: int | None = None,
    device: str | None = None,
    env: BatchedEnv | None = None,
    **how: Any,
) -> RunFolder:
    """Continue a run from its newest whole checkpoint, or from the beginning if it has not begun. `frames`: its new
    length."""
    begun = time.monotonic()
    folder = RunFolder.open(path)
    if frames is not None:
        change_length(folder, frames)
    config = read_config(folder, warn)
    refuse_other_settings(folder)
    place = pick_device(device or config.device)
    if not how.get("quiet"):
        warn(banner(config, place))
    with deterministic(config.deterministic):
        train_to_the_end(folder, make_trainer(config, place, env), begun=begun, **how)
    return folder


def change_length(folder: RunFolder, frames: int) -> None:
    """Set the total length of a run to `frames`."""
    trained = newest_state(folder.checkpoints).get("frames", 0)
    if frames < max(trained, 1):
        raise UsageError(f"--frames is {frames}, but {folder.path} has {trained} frames already; ask for more.")
    folder.lock()
    try:
        record = folder.record()
        folder.rewrite(record | {"config": record["config"] | {"frames": frames}})
    finally:
        folder.unlock()


def refuse_other_settings(folder: RunFolder) -> None:
    """Refuse settings that differ from those of the newest checkpoint. Only the length of a run may change."""
    others = other_settings(folder)
    if {"game", "method"} & others.keys():
        return  # a checkpoint of another run altogether; `saving.check` refuses that
    for name, (was, now) in others.items():
        if name != "frames":
            raise UsageError(
                f"{folder.path / 'config.json'} says {name} {now!r}, but the checkpoint was made with {was!r}; put it "
                "back, or start a new run with the other setting."
            )
        warn(f"The run is now to have {now} frames instead of {was}; what decays with training follows the new length.")
