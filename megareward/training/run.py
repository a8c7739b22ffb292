"""Start, continue and stop a run: the loop plus its folder, its logs, its checkpoints and the user's Ctrl-C."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from megareward.control.flash import too_many_flashes
from megareward.cuda.determinism import deterministic
from megareward.envs.interface import BatchedEnv
from megareward.errors import RunError, StoppedError, UsageError, warn
from megareward.quantities import count
from megareward.runs.checkpoint import forget_newer, list_checkpoints, load_newest, newest_state, save_checkpoint
from megareward.runs.durable import disk_is_full
from megareward.runs.folder import RunFolder
from megareward.runs.provenance import provenance
from megareward.state import part
from megareward.training.banner import banner
from megareward.training.config import TrainConfig, create_run, read_config
from megareward.training.evaluate import evaluate_run, other_settings, save_evaluation
from megareward.training.finite import NotFiniteError
from megareward.training.line import Now
from megareward.training.logger import Logger
from megareward.training.loop import Trainer
from megareward.training.memory import memory_in_use
from megareward.training.parts import make_game
from megareward.training.saving import restore, state_of, tensors_of
from megareward.training.start_from import begin_from, require_source, take_over
from megareward.training.tracking import Tracker, check_tracker
from megareward.waiting import waiting

PATIENCE = 5.0
"""Seconds that a rollout has to end after a signal; then it is dropped, if the ones before are saved."""


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
    free of out-2, out-3, ... is taken. `how`: see `train_to_the_end`."""
    device = pick_device(config.device)
    require_source(config)
    check_tracker(how.get("track", "none"))
    if not how.get("quiet"):
        warn(banner(config, device))
    with deterministic(config.deterministic):
        trainer = make_trainer(config, device, env)  # before the folder: a run that cannot begin leaves nothing behind
        source, files = take_over(trainer) if config.start_from else (None, None)
        folder = create_run(out, config, provenance(device), source, files, numbered)
        train_to_the_end(folder, trainer, **how)
    return folder


def create(config: TrainConfig, out: Path) -> RunFolder:
    """The folder of a new run, for `resume` to train."""
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
    folder = RunFolder.open(path)
    if frames is not None:
        change_length(folder, frames)
    config = read_config(folder, warn)
    refuse_other_settings(folder)
    place = pick_device(device or config.device)
    if not how.get("quiet"):
        warn(banner(config, place))
    with deterministic(config.deterministic):
        train_to_the_end(folder, make_trainer(config, place, env), **how)
    return folder


def change_length(folder: RunFolder, frames: int) -> None:
    """Let a run have so many frames in all from now on."""
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
    track: Tracker = "none",
    live: bool = False,
    eval_every: int = 0,
    eval_episodes: int = 10,
) -> None:
    """Train until the frames are done, the minutes are over, or the user stops it. The folder always resumes.

    minutes: stop after so long.
    tensorboard, track: where metrics go, beside metrics.jsonl. quiet: say nothing.
    live: serve a page about the run meanwhile, from a process of its own.
    eval_every: play `eval_episodes` whole games every so many frames; 0: never.

    A signal ends the run with the rollout. One that takes longer than `PATIENCE` seconds is dropped; on a machine so
    slow every rollout is saved, so nothing else is lost.
    """
    begun, config = time.monotonic(), trainer.config
    if trainer.device.type == "cuda":
        torch.set_num_threads(1)  # the cores belong to the emulator; the arithmetic is elsewhere
    elif any(observer.threaded for observer in trainer.observers.values()):
        torch.set_num_threads(max(1, torch.get_num_threads() // 2))  # one half plays, in the other observers learn
    folder.lock()
    try:
        with full_disk_explained(folder.path):
            with waiting("Starting the games and saving the first checkpoint"):
                message = _restore(trainer, folder)
            folder.note_process(trainer.frames, provenance(trainer.device))
            logger = Logger(
                folder,
                trainer.frames,
                config.frames,
                tensorboard=tensorboard,
                quiet=quiet,
                now=partial(now, trainer),
                track=track,
            )
            if message:
                logger.say(message)
            if trainer.iteration >= config.iterations:
                logger.say(f"It is finished; `megareward resume {folder.path} --frames N` makes it longer.")
            if tensorboard and not quiet:
                logger.say(f"Curves: tensorboard --logdir {folder.path}")
            with closing(logger), live_page(folder, live), stop_signals(logger.line.announce) as stop:
                saved_at, saved_iteration, warned = time.monotonic(), trainer.iteration, ""
                while trainer.iteration < config.iterations:
                    begun_at = time.monotonic()
                    try:
                        with not_finite_explained(trainer, folder), stop.may_drop(trainer.iteration == saved_iteration):
                            numbers, episodes = trainer.iterate()
                    except DroppedError:
                        dropped = f", without the {count(trainer.frames_so_far - trainer.frames)} of this rollout"
                        logger.say(farewell(trainer, folder, f"Stopped by {stop.names[0]}", dropped))
                        raise stop.interruption from None
                    numbers |= memory_in_use(trainer.device)
                    logger.log(trainer.frames, numbers, episodes, trainer.score_book.mean)
                    if not warned and (warned := too_many_flashes(numbers)):
                        logger.say(f"{warned} If your screen always moves so, --control.latent.flash 1 lets it be.")
                    now_is = time.monotonic()
                    out_of_time = minutes is not None and now_is - begun > 60 * minutes
                    done = trainer.iteration == config.iterations
                    due = now_is - saved_at >= 60 * config.checkpoint_minutes or now_is - begun_at > PATIENCE
                    evaluates = eval_every > 0 and crossed(trainer, eval_every) and not stop.names
                    if done or stop.names or out_of_time or due or evaluates:
                        with not_finite_explained(trainer, folder):
                            _save(trainer, folder)
                        saved_at, saved_iteration = time.monotonic(), trainer.iteration
                    if evaluates:
                        trainer.doing = "is evaluated"
                        logger.say(evaluation(folder, eval_episodes, trainer.device, stop))
                    if stop.names or out_of_time:
                        why = f"Stopped by {stop.names[0]}" if stop.names else f"Stopped after {minutes:g} minutes"
                        logger.say(farewell(trainer, folder, why))
                        if stop.names:
                            raise stop.interruption
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
def live_page(folder: RunFolder, wanted: bool) -> Iterator[None]:
    """`megareward watch RUN --live` beside the run, in a session of its own: Ctrl-C is for the run alone."""
    if not wanted:
        yield
        return
    words = [sys.executable, "-m", "megareward.cli", "watch", str(folder.path), "--live"]
    server = subprocess.Popen(words, start_new_session=True, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        server.terminate()
        server.wait()


def crossed(trainer: Trainer, every: int) -> bool:
    """Whether the last iteration went past a multiple of so many frames."""
    return trainer.frames // every > (trainer.frames - trainer.config.frames_per_iteration) // every


def evaluation(folder: RunFolder, episodes: int, device: torch.device, stop: "Stop") -> str:
    """Play with the checkpoint that was just saved. Training never sees these games. Returns what came out."""

    def give_way(_done: int, _of: int) -> None:
        if stop.names:
            raise DroppedError

    try:
        result = evaluate_run(folder.path, episodes, device=device, warn=warn, progress=give_way)
    except DroppedError:
        return "The evaluation was given up."
    save_evaluation(result, folder.path / "eval.jsonl")
    return f"{result.mean:.4g} +- {result.standard_error:.2g} in {episodes} games after {count(result.frames)} frames."


def now(trainer: Trainer) -> Now:
    """Where a run is, for the line on the terminal."""
    warmup = trainer.config.warmup_iterations * trainer.config.frames_per_iteration
    return Now(trainer.frames_so_far, trainer.doing, warmup)


def farewell(trainer: Trainer, folder: RunFolder, why: str, dropped: str = "") -> str:
    where = f"{count(trainer.frames)} of {count(trainer.config.frames)} frames"
    return f"{why} at {where}{dropped}. `megareward resume {folder.path}` goes on."


class DroppedError(Exception):
    """A rollout was given up half-way because a signal wants the run to end."""


class Stop:
    """Signals that want the run to end, and what is done about them."""

    def __init__(self, announce: Callable[[str], None]) -> None:
        self.announce = announce
        self.numbers: list[int] = []
        self.droppable = False

    @property
    def names(self) -> list[str]:
        return ["Ctrl-C" if n == signal.SIGINT else signal.Signals(n).name for n in self.numbers]

    @property
    def interruption(self) -> StoppedError:
        """What ends the command."""
        return StoppedError(self.numbers[-1])

    def note(self, number: int, _frame: Any) -> None:
        """The first signal is a request, the second one is an order."""
        self.numbers.append(number)
        if len(self.numbers) > 1:
            raise self.interruption
        self.announce(f"{self.names[0]}: stopping.")
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)

    def give_up(self, _number: int, _frame: Any) -> None:
        """The rollout has had its time."""
        if self.droppable:
            raise DroppedError

    @contextmanager
    def may_drop(self, droppable: bool) -> Iterator[None]:
        """Work that may be dropped half-way, if nothing else is lost by that."""
        self.droppable = droppable
        try:
            yield
        finally:
            self.droppable = False


@contextmanager
def stop_signals(announce: Callable[[str], None] = lambda text: None) -> Iterator[Stop]:
    """While this is entered, Ctrl-C, SIGTERM and SIGHUP are noted in what it yields and announced at once."""
    stop = Stop(announce)
    handlers = dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), stop.note)
    try:
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        before[signal.SIGALRM] = signal.signal(signal.SIGALRM, stop.give_up)
    except ValueError:  # not the main thread: the caller owns the signals
        yield stop
        return
    try:
        yield stop
    finally:
        if stop.numbers:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
