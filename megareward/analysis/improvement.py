"""What pretraining without the score is worth to training on it, over seeds (Eq. 13 is `relative.improvement`)."""

from collections.abc import Sequence

import numpy as np

from megareward.analysis.relative import improvement
from megareward.statistics.bootstrap import interval


def improvement_over_seeds(
    pretrained: Sequence[float], scratch: Sequence[float], random: float
) -> tuple[float | None, tuple[float, float] | None]:
    """Eq. 13 of the mean scores, with a 95% bootstrap interval over the seeds of the pretrained runs. It leaves out the
    spread of the runs from scratch, which are one number, as in the equation."""
    against = float(np.mean(scratch))
    mean = improvement(float(np.mean(pretrained)), against, random)
    singles = [improvement(score, against, random) for score in pretrained]
    known = [single for single in singles if single is not None]
    return mean, interval(known) if len(known) > 1 else None
