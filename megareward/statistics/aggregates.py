"""Many games and few seeds in one number, as Agarwal et al. (2021) recommend.

Written out with numpy: the authors' package `rliable` is the reference (the tests hold to its definitions), but it
would bring scipy, arch, seaborn and pandas for four short functions.

`scores` are by game, each with one normalised score per seed; games may have different numbers of seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

DRAWS = 2_000

Scores = Mapping[str, Sequence[float]]
Statistic = Callable[[np.ndarray], Any]


def interquartile_mean(runs: ArrayLike) -> Any:
    """Mean of the middle half of the runs along the last axis: a quarter of them, rounded down, is cut at each end."""
    ordered = np.sort(np.asarray(runs, dtype=float), axis=-1)
    cut = ordered.shape[-1] // 4
    return ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)


def pooled(scores: Scores) -> np.ndarray:
    """All runs of all games, one after the other."""
    return np.concatenate([np.asarray(seeds, dtype=float) for seeds in scores.values()])


def stratified_interval(scores: Scores, statistic: Statistic = interquartile_mean) -> tuple[Any, Any]:
    """95% percentile bootstrap interval of a statistic of the pooled runs; seeds are drawn within each game.

    The statistic maps (draws, runs) to one value per draw. With a single seed in every game the interval is a point,
    and should not be shown.
    """
    rng = np.random.default_rng(0)
    found = statistic(np.concatenate([_drawn(seeds, rng) for seeds in scores.values()], axis=1))
    low, high = np.percentile(found, [2.5, 97.5], axis=0)
    return low, high


def mean_of_games(scores: Scores) -> tuple[float, float, float]:
    """Mean over the games, which count equally however many seeds they have, and its interval."""
    weights = np.concatenate([np.full(len(seeds), 1 / len(seeds)) for seeds in scores.values()]) / len(scores)
    low, high = stratified_interval(scores, lambda runs: runs @ weights)
    return float(pooled(scores) @ weights), float(low), float(high)


def performance_profile(runs: ArrayLike, thresholds: ArrayLike) -> np.ndarray:
    """Share of the runs (last axis) whose score is above each threshold."""
    runs, thresholds = np.asarray(runs, dtype=float), np.asarray(thresholds, dtype=float)
    return (runs[..., None, :] > thresholds[:, None]).mean(axis=-1)


def probability_of_improvement(ours: Scores, theirs: Scores) -> float:
    """Probability that a run of ours scores above one of theirs on the same game, averaged over the games that both
    have; equal scores count as one half."""
    return float(np.mean([_wins(np.asarray(ours[game]), np.asarray(theirs[game])) for game in shared(ours, theirs)]))


def improvement_interval(ours: Scores, theirs: Scores) -> tuple[float, float]:
    """95% stratified bootstrap interval of `probability_of_improvement`."""
    rng = np.random.default_rng(0)
    games = [_wins(_drawn(ours[game], rng), _drawn(theirs[game], rng)) for game in shared(ours, theirs)]
    low, high = np.percentile(np.mean(games, axis=0), [2.5, 97.5])
    return float(low), float(high)


def shared(ours: Scores, theirs: Scores) -> list[str]:
    """Games with runs on both sides."""
    return [game for game in ours if len(ours[game]) and len(theirs.get(game, ()))]


def _wins(ours: np.ndarray, theirs: np.ndarray) -> Any:
    """Share of wins over all pairs of (..., ours) and (..., theirs)."""
    better = np.sign(ours[..., :, None] - theirs[..., None, :])
    return ((1 + better) / 2).mean(axis=(-2, -1))


def _drawn(seeds: Sequence[float], rng: np.random.Generator) -> np.ndarray:
    """(DRAWS, seeds) with replacement."""
    return np.asarray(seeds, dtype=float)[rng.integers(len(seeds), size=(DRAWS, len(seeds)))]
