"""`megareward methods`."""

from dataclasses import dataclass

from megareward.cli.parsing import parse
from megareward.rewards import METHODS


@dataclass(frozen=True)
class MethodsArgs:
    """List the methods, and say which of them see the game's score."""


def command(words: list[str]) -> int:
    parse(MethodsArgs, words, "methods")
    for method in METHODS.values():
        sees = "sees the score" if method.uses_score else "never sees the score"
        print(f"{method.name:12} {method.summary}  ({sees})")
    return 0
