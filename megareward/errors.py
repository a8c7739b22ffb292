"""The two ways a command ends badly, and warnings. All of them are one sentence that names the value and the remedy."""

import difflib
import sys
from collections.abc import Iterable


class UsageError(ValueError):
    """The user asked for something impossible. The command line exits with status 2."""


class RunError(RuntimeError):
    """Something failed while working. The command line exits with status 1."""


class StoppedError(KeyboardInterrupt):
    """A signal has ended the work. The command line exits with 128 + its number: 130 after Ctrl-C, 143 after SIGTERM,
    129 after SIGHUP."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number


def suggestion(word: str, known: Iterable[str]) -> str:
    """' Did you mean breakout?' for a near miss, else an empty string."""
    close = difflib.get_close_matches(word.lower(), list(known), n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(close)}?" if close else ""


def warn(text: str) -> None:
    """Print what the user should know while the work goes on."""
    print(text, file=sys.stderr)
