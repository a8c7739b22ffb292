"""Signals that want a run to end: Ctrl-C, SIGTERM, SIGHUP. The first one is obeyed when the rollout is done."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from megareward.errors import StoppedError
from megareward.parent import STOPPING

PATIENCE = 5.0
"""Seconds that a rollout has to end after a signal; then it is dropped, if the ones before are saved."""


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
        STOPPING.set()
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
        STOPPING.clear()
        if stop.numbers:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
