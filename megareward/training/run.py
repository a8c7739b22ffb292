"""Start, continue and stop a run: the loop plus its folder, its logs, its checkpoints and the user's Ctrl-C."""

import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from megareward.control.flash import too_many_flashes
from megareward.cuda.determinism import deterministic
from megareward.envs.interface import BatchedEnv
from megareward.errors import RunError, TerminatedError, UsageError, warn
from megareward.quantities import count
from megareward.runs.checkpoint import forget_newer, list_checkpoints, load_newest, save_checkpoint
from megareward.runs.durable import disk_is_full
from megareward.runs.folder import RunFolder
from megareward.runs.provenance import provenance
from megareward.state import part
from megareward.training.config import TrainConfig, create_run, read_config
from megareward.training.evaluate import other_settings
from megareward.training.finite import NotFiniteError
from megareward.training.logger import Logger
from megareward.training.loop import Trainer
from megareward.training.memory import memory_in_use
from megareward.training.saving import restore, state_of, tensors_of
from megareward.training.start_from import begin_from, take_over


def pick_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda was asked for, but torch sees no GPU; use --device cpu or auto.")
    return torch.device(name)


def start(
    config: TrainConfig, out: Path, *, env: BatchedEnv | None = None, numbered: bool = False, **how: Any
) -> RunFolder:
    """A new run in a new folder. `env` replaces the game the config names. `numbered`: where `out` exists, the first
    free of out-2, out-3, ... is taken."""
    device = pick_device(config.device)
    with deterministic(config.deterministic):
        trainer = Trainer(config, device, env)  # before the folder: a run that cannot begin leaves nothing behind
        source, files = take_over(trainer) if config.start_from else (None, None)
        folder = create_run(out, config, provenance(device), source, files, numbered)
        train_to_the_end(folder, trainer, **how)
    return folder


def create(config: TrainConfig, out: Path) -> RunFolder:
    """The folder of a new run, for `resume` to train."""
    device = pick_device(config.device)
    if config.start_from is None:
        return create_run(out, config, provenance(device))
    trainer = Trainer(config, device)
    trainer.env.close()
    return create_run(out, config, provenance(device), *take_over(trainer))


def resume(path: Path, *, device: str | None = None, env: BatchedEnv | None = None, **how: Any) -> RunFolder:
    """Continue a run from its newest whole checkpoint, or from the beginning if it has not begun."""
    folder = RunFolder.open(path)
    config = read_config(folder, warn)
    refuse_other_settings(folder)
    with deterministic(config.deterministic):
        train_to_the_end(folder, Trainer(config, pick_device(device or config.device), env), **how)
    return folder


def refuse_other_settings(folder: RunFolder) -> None:
    """A run goes on with the settings that its checkpoint was made with. Only its length may change."""
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


def train_to_the_end(
    folder: RunFolder,
    trainer: Trainer,
    *,
    minutes: float | None = None,
    tensorboard: bool = True,
    quiet: bool = False,
) -> None:
    """Train until the frames are done, the minutes are over, or the user stops it. The folder always resumes."""
    begun, config = time.monotonic(), trainer.config
    if trainer.device.type == "cuda":
        torch.set_num_threads(1)  # the cores belong to the emulator; the arithmetic is elsewhere
    elif any(observer.threaded for observer in trainer.observers.values()):
        torch.set_num_threads(max(1, torch.get_num_threads() // 2))  # one half plays, in the other observers learn
    folder.lock()
    try:
        with full_disk_explained(folder.path):
            message = _restore(trainer, folder)
            folder.note_process(trainer.frames, provenance(trainer.device))
            logger = Logger(folder, trainer.frames, config.frames, tensorboard=tensorboard, quiet=quiet)
            if message:
                logger.say(message)
            with closing(logger), stop_signals() as stopped:
                saved_at, warned = time.monotonic(), ""
                while trainer.iteration < config.iterations:
                    with not_finite_explained(trainer, folder):
                        numbers, episodes = trainer.iterate()
                    numbers |= memory_in_use(trainer.device)
                    logger.log(trainer.frames, numbers, episodes, trainer.score_book.mean)
                    if not warned and (warned := too_many_flashes(numbers)):
                        logger.say(f"{warned} If your screen always moves so, --control.latent.flash 1 lets it be.")
                    now = time.monotonic()
                    out_of_time = minutes is not None and now - begun > 60 * minutes
                    done = trainer.iteration == config.iterations
                    if done or stopped or out_of_time or now - saved_at >= 60 * config.checkpoint_minutes:
                        with not_finite_explained(trainer, folder):
                            _save(trainer, folder)
                        saved_at = time.monotonic()
                    if stopped or out_of_time:
                        why = f"Stopped by {stopped[0]}" if stopped else f"Stopped after {minutes:g} minutes"
                        where = f"{count(trainer.frames)} of {count(config.frames)} frames"
                        logger.say(f"{why} at {where}. `megareward resume {folder.path}` goes on.")
                        if stopped:
                            raise interruption(stopped[0])
                        return
    finally:
        trainer.env.close()
        folder.unlock()


def _restore(trainer: Trainer, folder: RunFolder) -> str | None:
    found = load_newest(folder.checkpoints, warn, accept=partial(restore, trainer))
    if found is None:
        return _begin(trainer, folder)
    path, tensors, state = found
    forget_newer(path)
    folder.cut_logs(state["log_sizes"])
    games = "" if part(tensors, "env") else "; the emulator starts new episodes"
    return f"Resuming {folder.path} at {count(trainer.frames)} frames{games}."


def _begin(trainer: Trainer, folder: RunFolder) -> str | None:
    """From the first frame. A checkpoint is written before the first line of any log, so logs without one are those of
    a run that has lost its checkpoints; they are kept."""
    if logs := [log for log, size in folder.log_sizes().items() if size]:
        raise UsageError(
            f"{folder.path} has logs but no checkpoint to go on from, and nothing was changed. Bring its folder "
            f"checkpoints back; or move {' and '.join(logs)} away to train it from the beginning."
        )
    message = begin_from(trainer, folder) if trainer.config.start_from else None
    trainer.begin()
    _save(trainer, folder)
    return message


@contextmanager
def not_finite_explained(trainer: Trainer, folder: RunFolder) -> Iterator[None]:
    try:
        yield
    except NotFiniteError as broken:
        saved = list_checkpoints(folder.checkpoints)
        learnt = saved and int(saved[-1].name) > 0
        good = f"The last good checkpoint is {saved[-1]}; resume it, or" if learnt else "Nothing was learnt yet;"
        raise RunError(
            f"'{broken.name}' became NaN or infinite at {count(trainer.frames)} frames. {good} "
            "start again with a lower --ppo.learning-rate."
        ) from broken


def _save(trainer: Trainer, folder: RunFolder) -> None:
    state = {**state_of(trainer), "log_sizes": folder.log_sizes()}
    save_checkpoint(folder.checkpoints, trainer.frames, tensors_of(trainer), state)


@contextmanager
def full_disk_explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as why:
        if disk_is_full(why):
            raise RunError(
                f"No space is left for {path}; free some, then `megareward resume {path}` goes on "
                "from the last checkpoint."
            ) from why
        raise


@contextmanager
def stop_signals() -> Iterator[list[str]]:
    """The first Ctrl-C (or SIGTERM) is a request, noted in the list that this yields; the second one is an order."""
    received: list[str] = []

    def note(number: int, _frame: Any) -> None:
        received.append("Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name)
        if len(received) > 1:
            raise interruption(received[-1])

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: the caller owns the signals
        yield received
        return
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def interruption(by: str) -> KeyboardInterrupt:
    """What ends the command after a signal of this name."""
    return TerminatedError() if by == "SIGTERM" else KeyboardInterrupt()
