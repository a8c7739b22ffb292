"""A sign of life during one long call, such as an import or the building of emulators.

It comes from a small process of its own, since such a call may hold the interpreter's lock and then no thread can
print. This file is that process's program too, so it imports the standard library only.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

EVERY, PLAIN_EVERY = 1.0, 15.0
"""Seconds between two lines, on a terminal and elsewhere."""

quiet = False
"""Set by the command line for --quiet: nothing is printed in this process."""
_speaking = False


@contextlib.contextmanager
def waiting(what: str, expected: float = 0.0) -> Iterator[None]:
    """Print every second on a terminal, now and then elsewhere, that `what` is still going on, and for how long.

    expected: seconds that it usually takes; 0 if unknown. Work of less than a second prints nothing, nor does work
    inside of other work that prints.
    """
    global _speaking
    try:
        screen = None if quiet or _speaking else sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):  # no real file, as in a notebook
        screen = None
    if screen is None:
        yield
        return
    words = [sys.executable, "-I", "-S", str(Path(__file__)), what, str(expected)]
    try:
        teller = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=screen)
    except OSError:  # no process could be started; the work itself goes on
        yield
        return
    _speaking = True
    try:
        yield
    finally:
        _speaking = False
        assert teller.stdin is not None
        teller.stdin.close()
        teller.wait()


def tell(what: str, expected: float) -> None:
    """Print until the other end of stdin is closed, which also happens if the process that waits is killed."""
    begun, on_screen, said = time.monotonic(), os.isatty(2), False
    stopping = ""

    def note(_number: int, _frame: object) -> None:
        nonlocal stopping
        stopping = "  Ctrl-C: stops as soon as this is over"

    signal.signal(signal.SIGINT, note)
    while not select.select([0], [], [], EVERY if on_screen else PLAIN_EVERY)[0]:
        about = f" of about {expected:.0f} s" if expected else " s"
        text = f"{what}: {time.monotonic() - begun:.0f}{about}{stopping}"
        os.write(2, (f"\r{text:78}" if on_screen else f"{text}\n").encode())
        said = True
    if said and on_screen:
        os.write(2, f"\r{'':78}\r".encode())


if __name__ == "__main__":
    with contextlib.suppress(OSError):  # the terminal is gone
        tell(sys.argv[1], float(sys.argv[2]))
