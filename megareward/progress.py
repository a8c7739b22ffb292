"""Progress of long work on one line: how much is done, how fast it goes, how long it will take."""

import shutil
import sys
import time

from megareward.quantities import duration


class Bar:
    """Call it with (done, of) as often as you like: on a terminal one line is updated in place; elsewhere a plain line
    is printed now and then, and none if the work is short."""

    EVERY, PLAIN_EVERY = 0.5, 15.0
    """Seconds between two lines, on a terminal and elsewhere."""

    def __init__(self, what: str) -> None:
        self.what, self.begun = what, time.monotonic()
        self.said: float | None = None

    def __call__(self, done: int, of: int) -> None:
        is_over = done >= of and (sys.stderr.isatty() or self.said is not None)
        if is_over or self.is_due():
            pace = self.pace(done, of, time.monotonic() - self.begun)
            self.show(f"{done} of {of} {self.what}  {pace}", is_over)

    def is_due(self) -> bool:
        """Whether it is time for another line."""
        since = self.said if self.said is not None else self.begun
        return time.monotonic() - since >= (self.EVERY if sys.stderr.isatty() else self.PLAIN_EVERY)

    def show(self, text: str, is_over: bool = False) -> None:
        """Print a line; on a terminal over the line before, cut to the terminal's width."""
        self.said, on_screen = time.monotonic(), sys.stderr.isatty()
        if on_screen:
            width = shutil.get_terminal_size().columns - 1
            text = f"\r{text[:width]:{width}}"
        print(text, end="\n" if is_over or not on_screen else "", file=sys.stderr, flush=True)

    @staticmethod
    def pace(done: int, of: int, seconds: float) -> str:
        if not done or done >= of:
            return f"{duration(seconds)} so far" if done < of else f"in {duration(seconds)}"
        rate = f"{done / seconds:.3g}/s" if done > seconds else f"{seconds / done:.3g} s each"
        return f"{rate}  {duration((of - done) * seconds / done)} left"
