"""Signals that stop a run: Ctrl-C, SIGTERM, SIGHUP. After the first one, the run ends with the present rollout."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from megareward.errors import StoppedError
from megareward.parent import STOPPING

PATIENCE = 5.0
"""Seconds that a rollout may still take after a signal; then it is dropped, if the ones before are saved."""


class DroppedError(Exception):
    """A rollout or an evaluation was dropped half-way because a signal stops the run."""


class Stop:
    """The signals received so far, and their handlers."""

    def __init__(self, announce: Callable[[str], None]) -> None:
        self.announce = announce
        self.numbers: list[int] = []
        self.droppable = False

    @property
    def names(self) -> list[str]:
        return ["Ctrl-C" if n == signal.SIGINT else signal.Signals(n).name for n in self.numbers]

    @property
    def interruption(self) -> StoppedError:
        """The exception that ends the command."""
        return StoppedError(self.numbers[-1])

    def note(self, number: int, _frame: Any) -> None:
        """Signal handler. The first signal stops the run after the present rollout, the second one at once."""
        STOPPING.set()
        self.numbers.append(number)
        if len(self.numbers) > 1:
            raise self.interruption
        self.announce(f"{self.names[0]}: stopping.")
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)

    def give_up(self, _number: int, _frame: Any) -> None:
        """Handler of the timer: drop the rollout if it may be dropped."""
        if self.droppable:
            raise DroppedError

    @contextmanager
    def may_drop(self, droppable: bool) -> Iterator[None]:
        """While this is entered, the work may be dropped half-way if `droppable`, that is if nothing else is lost."""
        self.droppable = droppable
        try:
            yield
        finally:
            self.droppable = False


@contextmanager
def stop_signals(announce: Callable[[str], None] = lambda text: None) -> Iterator[Stop]:
    """While this is entered, Ctrl-C, SIGTERM and SIGHUP are recorded in the yielded `Stop` and announced at once."""
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
        STOPPING.clear()
        if stop.numbers:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
