"""Progress of long work on one line: how much is done, how fast it goes, how long it will take."""

import sys
import time

from megareward.quantities import duration


class Bar:
    """Call it with (done, of) as often as you like: on a terminal one line renews itself, elsewhere a plain line comes
    now and then, and none if the work is short."""

    EVERY, PLAIN_EVERY = 0.5, 15.0
    """Seconds between two lines, on a terminal and elsewhere."""

    def __init__(self, what: str) -> None:
        self.what, self.begun = what, time.monotonic()
        self.said: float | None = None

    def __call__(self, done: int, of: int) -> None:
        now, on_screen = time.monotonic(), sys.stderr.isatty()
        is_over = done >= of and (on_screen or self.said is not None)
        since = self.said if self.said is not None else self.begun
        if now - since < (self.EVERY if on_screen else self.PLAIN_EVERY) and not is_over:
            return
        self.said = now
        text = f"{done} of {of} {self.what}  {self.pace(done, of, now - self.begun)}"
        end = "\n" if is_over or not on_screen else ""
        print(f"\r{text:70}" if on_screen else text, end=end, file=sys.stderr, flush=True)

    @staticmethod
    def pace(done: int, of: int, seconds: float) -> str:
        if not done or done >= of:
            return f"{duration(seconds)} so far" if done < of else f"in {duration(seconds)}"
        rate = f"{done / seconds:.3g}/s" if done > seconds else f"{seconds / done:.3g} s each"
        return f"{rate}  {duration((of - done) * seconds / done)} left"
