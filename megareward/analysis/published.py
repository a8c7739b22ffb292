"""Scores published in papers, each with its source."""

import functools
import json
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Published:
    """One column of a published table."""

    source: str
    frames: int | None
    """Emulator frames of training; None if nothing was trained, or if the source does not say."""
    scores: dict[str, float]
    """Scores by canonical name of the game."""


@functools.cache
def published() -> dict[str, Published]:
    """All published columns by 'source/column': paper/mega, paper/rnd, ..., random, human/mnih2015, ppo/schulman2017,
    dqn/mnih2015, paper-noise/G-RND, ..."""
    text = resources.files("megareward.analysis").joinpath("data/published.json").read_text()
    return {name: Published(**column) for name, column in json.loads(text)["columns"].items()}


def published_score(column: str, game: str) -> float | None:
    """The published score of a game; None if the column does not have it."""
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
"""The paper's, on Seaquest: i7 with 16 cores, one GTX 1080 Ti (extended paper, table of running times)."""
