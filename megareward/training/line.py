"""The progress line of a run on the terminal: frames, rate, time left, present activity, score and losses."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from megareward.quantities import count, duration

SHOWN = {"loss/policy": "policy", "loss/value": "value", "loss/entropy": "entropy"}


class Now(NamedTuple):
    """The present state of a run, also within a rollout."""

    frames: int
    doing: str = ""
    warmup_frames: int = 0
    """Frames of random play before the policy learns; 0 if there are none."""


class ProgressLine:
    """On a terminal it is redrawn four times a second; elsewhere a plain line is printed now and then. Both happen in a
    thread, as a rollout may take minutes on a CPU."""

    PLAIN_EVERY = 15.0
    """Seconds between plain lines."""

    def __init__(self, now: Callable[[], Now], total: int, *, quiet: bool) -> None:
        """`now` is called from another thread."""
        self.now, self.total, self.quiet = now, total, quiet
        self.begun, self.frames_then = time.monotonic(), now().frames
        self.score: float | None = None
        self.losses = self.notice = ""
        self.live: Any = None
        self._wake, self._over = threading.Event(), False
        self._thread: threading.Thread | None = None
        if quiet:
            return
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self.live = Live(console=Console(stderr=True), get_renderable=self._renderable, refresh_per_second=4)
            self.live.start()
        else:
            self._thread = threading.Thread(target=self._speak, name="progress", daemon=True)
            self._thread.start()

    def pace(self, frames: int) -> tuple[float, float]:
        """Frames per second since this process began, and seconds left at that rate."""
        rate = (frames - self.frames_then) / max(time.monotonic() - self.begun, 1e-9)
        return rate, max(self.total - frames, 0) / max(rate, 1e-9)

    def learnt(self, score: float | None, metrics: dict[str, float]) -> None:
        """Take note of the score and the losses of the last iteration."""
        self.score = score
        self.losses = "  ".join(f"{label} {metrics[name]:.3g}" for name, label in SHOWN.items() if name in metrics)

    def text(self) -> str:
        now = self.now()
        rate, left = self.pace(now.frames)
        parts = [
            f"{100 * min(now.frames / self.total, 1):3.0f}%",
            f"{count(now.frames)} of {count(self.total)} frames",
            f"{count(rate)}/s",
            f"{duration(left)} left" if rate else f"{duration(time.monotonic() - self.begun)} so far",
            f"warm-up: random play, {count(now.frames)} of {count(now.warmup_frames)} frames"
            if now.frames < now.warmup_frames
            else "",
            now.doing,
            "no game over yet" if self.score is None else f"score {self.score:.4g}",
            self.losses,
        ]
        return "  ".join(part for part in [self.notice, *parts] if part)

    def announce(self, text: str) -> None:
        """Begin the line with this from now on. Safe in a signal handler, since another thread prints it."""
        self.notice = text
        self._wake.set()

    def say(self, text: str) -> None:
        with ignore_lost_terminal():
            if self.live is not None:
                self.live.console.print(text, markup=False, highlight=False, soft_wrap=True)
            elif not self.quiet:
                print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        self._over = True
        self._wake.set()
        with ignore_lost_terminal():
            if self.live is not None:
                self.live.stop()
        if self._thread is not None:
            self._thread.join()
            self.say(self.text())
        self.live = self._thread = None

    def _renderable(self) -> Any:
        from rich.text import Text

        return Text(self.text(), overflow="ellipsis", no_wrap=True)

    def _speak(self) -> None:
        wait = 2.0  # the first one soon
        while True:
            self._wake.wait(wait)
            if self._over:
                return
            self._wake.clear()
            self.say(self.text())
            wait = self.PLAIN_EVERY


@contextlib.contextmanager
def ignore_lost_terminal() -> Iterator[None]:
    """Ignore failed writes: after SIGHUP the terminal is gone, but the run must still be saved."""
    with contextlib.suppress(OSError, ValueError):
        yield
