"""A run from its newest checkpoint to its end: the loop with its logs, its checkpoints and stop signals."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import torch

from megareward.control.flash import too_many_flashes
from megareward.errors import RunError, UsageError, warn
from megareward.quantities import count
from megareward.runs.checkpoint import forget_newer, list_checkpoints, load_newest, save_checkpoint
from megareward.runs.durable import disk_is_full
from megareward.runs.folder import RunFolder
from megareward.runs.provenance import provenance
from megareward.state import part
from megareward.training import stopping
from megareward.training.evaluate import evaluate_run, save_evaluation
from megareward.training.finite import NotFiniteError
from megareward.training.line import Now
from megareward.training.logger import Logger
from megareward.training.loop import Trainer
from megareward.training.memory import keep_freed_memory, memory_in_use
from megareward.training.saving import restore, state_of, tensors_of
from megareward.training.start_from import begin_from
from megareward.training.stopping import DroppedError, Stop, stop_signals
from megareward.training.tracking import Tracker
from megareward.waiting import waiting


def train_to_the_end(
    folder: RunFolder,
    trainer: Trainer,
    *,
    begun: float | None = None,
    minutes: float | None = None,
    tensorboard: bool = True,
    quiet: bool = False,
    track: Tracker = "none",
    live: bool = False,
    eval_every: int = 0,
    eval_episodes: int = 10,
) -> None:
    """Train until the frames are done, the minutes are over, or a signal stops it. The run can always be resumed.

    minutes: stop after so long, counted from `begun` (time.monotonic()); if that is None, from now.
    tensorboard, track: where metrics go, beside metrics.jsonl. quiet: say nothing.
    live: serve a page about the run meanwhile, from a process of its own.
    eval_every: play `eval_episodes` whole games every so many frames; 0: never.

    After a signal the run ends with the present rollout. If that takes longer than `stopping.PATIENCE` seconds, it is
    dropped; on a machine that slow every rollout is saved, so nothing else is lost.
    """
    begun = time.monotonic() if begun is None else begun
    share_the_cores(trainer)
    if trainer.device.type == "cpu":
        keep_freed_memory()
    folder.lock()
    try:
        with full_disk_explained(folder.path):
            with waiting("Starting the games and saving the first checkpoint"):
                message = _restore(trainer, folder)
            folder.note_process(trainer.frames, provenance(trainer.device))
            logger = Logger(
                folder,
                trainer.frames,
                trainer.config.frames,
                tensorboard=tensorboard,
                quiet=quiet,
                now=partial(now, trainer),
                track=track,
            )
            if message:
                logger.say(message)
            if trainer.done:
                logger.say(f"It is finished; `megareward resume {folder.path} --frames N` makes it longer.")
            if tensorboard and not quiet:
                logger.say(f"Curves: tensorboard --logdir {folder.path}")
            with closing(logger), live_page(folder, live), stop_signals(logger.line.announce) as stop:
                TrainingProcess(folder, trainer, logger, stop, begun, minutes, eval_every, eval_episodes).train()
    finally:
        trainer.env.close()
        folder.unlock()


def share_the_cores(trainer: Trainer) -> None:
    """Divide the CPU cores between torch, the emulator, and observers that learn in threads of their own."""
    if trainer.device.type == "cuda":
        torch.set_num_threads(1)  # the cores are for the emulator; the arithmetic is on the GPU
    elif any(observer.threaded for observer in trainer.observers.values()):
        torch.set_num_threads(max(1, torch.get_num_threads() // 2))  # one half plays, in the other observers learn


class TrainingProcess:
    """A process's part of a run. After each iteration it does what is due: a checkpoint, an evaluation, the end."""

    def __init__(
        self,
        folder: RunFolder,
        trainer: Trainer,
        logger: Logger,
        stop: Stop,
        begun: float,
        minutes: float | None,
        eval_every: int,
        eval_episodes: int,
    ) -> None:
        self.folder, self.trainer, self.logger, self.stop = folder, trainer, logger, stop
        self.begun, self.minutes, self.eval_every, self.eval_episodes = begun, minutes, eval_every, eval_episodes
        self.saved_at, self.saved_iteration = time.monotonic(), trainer.iteration
        self.warned = False

    def train(self) -> None:
        while not self.trainer.done:
            begun = time.monotonic()
            self.iterate()
            slow = time.monotonic() - begun > stopping.PATIENCE
            out_of_time = self.minutes is not None and time.monotonic() - self.begun > 60 * self.minutes
            evaluates = self.evaluation_due and not self.stop.names
            if slow or out_of_time or evaluates or self.checkpoint_due:
                self.save()
            if evaluates:
                self.evaluate()
            if self.stop.names and self.saved_iteration == self.trainer.iteration:  # if not, the next iteration saves
                self.take_leave(f"Stopped by {self.stop.names[0]}")
                raise self.stop.interruption
            if out_of_time:
                self.take_leave(f"Stopped after {self.minutes:.3g} minutes")
                return

    def iterate(self) -> None:
        """Collect one rollout, learn from it, and log it."""
        trainer = self.trainer
        saved = trainer.iteration == self.saved_iteration
        try:
            with not_finite_explained(trainer, self.folder), self.stop.may_drop(saved):
                numbers, episodes = trainer.iterate()
        except DroppedError:
            dropped = count(trainer.frames_so_far - trainer.frames)
            self.take_leave(f"Stopped by {self.stop.names[0]}", f", without the {dropped} of this rollout")
            raise self.stop.interruption from None
        numbers |= memory_in_use(trainer.device)
        self.logger.log(trainer.frames, numbers, episodes, trainer.score_book.mean)
        if not self.warned and (warning := too_many_flashes(numbers)):
            self.logger.say(f"{warning} If your screen always moves so, --control.latent.flash 1 lets it be.")
            self.warned = True

    @property
    def checkpoint_due(self) -> bool:
        minutes = (time.monotonic() - self.saved_at) / 60
        return self.trainer.done or bool(self.stop.names) or minutes >= self.trainer.config.checkpoint_minutes

    def save(self) -> None:
        with not_finite_explained(self.trainer, self.folder):
            _save(self.trainer, self.folder)
        self.saved_at, self.saved_iteration = time.monotonic(), self.trainer.iteration

    @property
    def evaluation_due(self) -> bool:
        """Whether the last iteration reached a multiple of `eval_every` frames."""
        frames, every = self.trainer.frames, self.eval_every
        return every > 0 and frames // every > (frames - self.trainer.config.frames_per_iteration) // every

    def evaluate(self) -> None:
        """Play with the checkpoint that was just saved. Training never sees these games."""
        self.trainer.doing = "is evaluated"
        path, games = self.folder.path, self.eval_episodes
        try:
            result = evaluate_run(path, games, device=self.trainer.device, warn=warn, progress=self.give_way)
        except DroppedError:
            self.logger.say("The evaluation was given up.")
            return
        save_evaluation(result, path / "eval.jsonl")
        scored = f"{result.mean:.4g} +- {result.standard_error:.2g}"
        self.logger.say(f"{scored} in {games} games after {count(result.frames)} frames.")

    def give_way(self, _done: int, _of: int) -> None:
        if self.stop.names:
            raise DroppedError

    def take_leave(self, why: str, dropped: str = "") -> None:
        where = f"{count(self.trainer.frames)} of {count(self.trainer.config.frames)} frames"
        self.logger.say(f"{why} at {where}{dropped}. `megareward resume {self.folder.path}` goes on.")


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
    """Begin at the first frame. A checkpoint is written before the first line of any log, so logs without one belong to
    a run that has lost its checkpoints: it is refused, and the logs are kept."""
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
    """Run `megareward watch RUN --live` meanwhile, in a session of its own, so that Ctrl-C reaches only the run."""
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


def now(trainer: Trainer) -> Now:
    """The present state of a run, for the progress line."""
    warmup = trainer.config.warmup_iterations * trainer.config.frames_per_iteration
    return Now(trainer.frames_so_far, trainer.doing, warmup)
