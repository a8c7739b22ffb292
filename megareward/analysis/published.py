"""Scores printed in papers, typed once, each with its source."""

import functools
import json
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Published:
    """One column of somebody's table."""

    source: str
    frames: int | None
    """Emulator frames of training; None where nothing was trained, or where the source does not say."""
    scores: dict[str, float]
    """By canonical game name."""


@functools.cache
def published() -> dict[str, Published]:
    """By 'source/column': paper/mega, paper/rnd, ..., random, human/mnih2015, ppo/schulman2017, dqn/mnih2015,
    paper-noise/G-RND, ..."""
    text = resources.files("megareward.analysis").joinpath("data/published.json").read_text()
    return {name: Published(**column) for name, column in json.loads(text)["columns"].items()}


def published_score(column: str, game: str) -> float | None:
    """None where the column lacks the game."""
    return published()[column].scores.get(game)


HOURS_FOR_80M = {
    "emp": 14.24,
    "curiosity": 15.87,
    "rnd": 17.62,
    "sto": 12.96,
    "div": 19.66,
    "dir": 21.32,
    "mega": 34.22,
    "extrinsic": 5.126,
}
"""Of the paper, on Seaquest: i7 with 16 cores, one GTX 1080 Ti (extended paper, table of running times)."""
