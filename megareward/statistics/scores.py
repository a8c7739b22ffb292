"""The score of a run: the mean over its last 50 finished games, at the end and along the way."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

RECENT = 50
"""Finished games averaged for the score that is shown and reported (paper: the last 50)."""
CURVE_POINTS = 200

Episodes = Sequence[Mapping[str, Any]]
"""Finished games in order, each with `frames` and `score`: the rows of scores.jsonl."""


def last_scores(episodes: Episodes) -> list[float]:
    """Scores of the last 50 games, or of as many as there are."""
    return [episode["score"] for episode in episodes[-RECENT:]]


def last_mean(episodes: Episodes) -> float:
    return float(np.mean(last_scores(episodes)))


def standard_error(scores: Sequence[float] | np.ndarray) -> float:
    """Standard error of the mean; NaN for a single score."""
    return float(np.std(scores, ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else float("nan")


def rooms_of(games: Sequence[Sequence[int]]) -> tuple[float, list[int]]:
    """Given the rooms visited in each game: the mean number of them, and all of them together."""
    return float(np.mean([len(rooms) for rooms in games])), sorted(set().union(*games))


def curve(episodes: Episodes) -> list[list[int | float]]:
    """[frames, mean score of the last 50 games] at up to 200 points, evenly spread over the frames."""
    sums = np.concatenate([[0.0], np.cumsum([float(episode["score"]) for episode in episodes])])
    ends = _ends(episodes)
    starts = np.maximum(ends - RECENT, 0)
    means = (sums[ends] - sums[starts]) / (ends - starts)
    return [[episodes[end - 1]["frames"], round(float(mean), 4)] for end, mean in zip(ends, means, strict=True)]


def curve_errors(episodes: Episodes) -> list[float]:
    """Standard error, over the games in it, of each mean of the `curve`."""
    return [standard_error(last_scores(episodes[:end])) for end in _ends(episodes)]


def _ends(episodes: Episodes) -> np.ndarray:
    """Number of finished games at each point of the curve."""
    if not episodes:
        return np.zeros(0, dtype=np.int64)
    frames = [episode["frames"] for episode in episodes]
    return np.unique(np.searchsorted(frames, np.linspace(frames[0], frames[-1], CURVE_POINTS), side="right"))
