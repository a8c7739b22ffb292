"""What the commands share: parsing arguments into dataclasses with tyro, and counts such as 80M."""

import contextlib
import importlib
import io
import sys
from typing import Annotated, Any, Literal

import tyro

from megareward.errors import UsageError
from megareward.quantities import parse_count, short_count
from megareward.waiting import waiting

Count = Annotated[
    int,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="N",
        instance_from_str=lambda words: parse_count(words[0]),
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [short_count(value)],
    ),
]
"""A whole number that may be written as 200k or 80M."""

Device = Literal["auto", "cpu", "cuda"]


def parse(kind: Any, words: list[str], command: str, default: Any = None) -> Any:
    """Parse with tyro, which prints help and refuses typos with exit status 2.

    If one of our dataclasses raises a `UsageError` meanwhile, tyro prints it in a box and exits. The box is suppressed
    and the error raised again, so that `main` prints it as one sentence.
    """
    extra = {} if default is None else {"default": default}
    held_back = io.StringIO()
    try:
        with contextlib.redirect_stderr(held_back):
            return tyro.cli(kind, args=words, prog=f"megareward {command}", **extra)
    except SystemExit as ending:
        behind = ending.__context__
        while behind is not None and not isinstance(behind, UsageError):
            behind = behind.__context__
        if behind is not None:
            raise behind from None
        print(held_back.getvalue(), end="", file=sys.stderr)
        raise


def load_torch() -> None:
    """Import torch and the training code, with a message meanwhile: it takes seconds, or a minute from a cold disk."""
    if "megareward.training.run" not in sys.modules:
        with waiting("Loading torch"):
            importlib.import_module("megareward.training.run")


def option(words: list[str], name: str, default: str) -> str:
    """Look up one option before the full parse."""
    for i, word in enumerate(words):
        if word == f"--{name}" and i + 1 < len(words):
            return words[i + 1]
        if word.startswith(f"--{name}="):
            return word.split("=", 1)[1]
    return default
