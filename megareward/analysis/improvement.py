"""Eq. 13: what pretraining without the score is worth to training on it."""

from collections.abc import Sequence

import numpy as np

from megareward.statistics.bootstrap import interval


def improvement(pretrained: float, scratch: float, random: float) -> float | None:
    """Eq. 13: S_Improve = (S_Pretrain - S_Random) / (S_Scratch - S_Random), in percent; 100 is no improvement.

    None where training from scratch is no better than random play: there is nothing to compare with.
    """
    if scratch <= random:
        return None
    return 100 * (pretrained - random) / (scratch - random)


def improvement_over_seeds(
    pretrained: Sequence[float], scratch: Sequence[float], random: float
) -> tuple[float | None, tuple[float, float] | None]:
    """Of the mean scores, with a 95% bootstrap interval over the seeds of the pretrained runs. The spread of the runs
    from scratch is not in it: they are one number, as in the equation."""
    against = float(np.mean(scratch))
    mean = improvement(float(np.mean(pretrained)), against, random)
    singles = [improvement(score, against, random) for score in pretrained]
    known = [single for single in singles if single is not None]
    return mean, interval(known) if len(known) > 1 else None
