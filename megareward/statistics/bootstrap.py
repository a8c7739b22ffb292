"""How sure a mean over few seeds is."""

import numpy as np

RESAMPLES = 10_000


def interval(scores: list[float], seed: int = 0) -> tuple[float, float]:
    """95% bootstrap interval of the mean over seeds."""
    draws = np.random.default_rng(seed).choice(scores, (RESAMPLES, len(scores)))
    low, high = np.percentile(draws.mean(1), [2.5, 97.5])
    return float(low), float(high)
