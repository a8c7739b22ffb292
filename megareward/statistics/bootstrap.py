"""Bootstrap intervals of means over few seeds."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

DRAWS = 10_000


def interval(scores: ArrayLike, weights: ArrayLike | None = None) -> tuple[Any, Any]:
    """95% percentile bootstrap interval (low, high) of the mean over the first axis, which is the seeds.

    (seeds,) gives two numbers, (seeds, points) two arrays of (points,). The same seeds are drawn for every point, with
    a fixed random seed. Of two or three seeds the interval runs from the worst to the best: with so few, drawing one
    seed every time is likelier than 2.5%. Of one seed it is that seed's score twice; show no interval then.

    Instead of seeds, other units may be drawn, such as episodes or games. `weights`: one per unit, its weight in the
    mean, such as the number of frames that its score is a mean of.
    """
    scores = np.asarray(scores, dtype=float)
    drawn = np.random.default_rng(0).integers(len(scores), size=(DRAWS, len(scores)))
    if weights is None:
        means = sum(scores[seeds] for seeds in drawn.T) / len(scores)  # (DRAWS, ...)
    else:
        weights = np.asarray(weights, dtype=float)
        each = weights.reshape(-1, *[1] * (scores.ndim - 1))
        means = sum(each[seeds] * scores[seeds] for seeds in drawn.T) / sum(each[seeds] for seeds in drawn.T)
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    return low, high
