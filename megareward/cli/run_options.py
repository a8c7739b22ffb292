"""What `train` and `resume` share: how a run is made, as opposed to what is trained."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from megareward.errors import UsageError


@dataclass(frozen=True)
class RunOptions:
    """None of these changes what is learnt, and none is kept in the run's config."""

    minutes: Annotated[float | None, tyro.conf.arg(aliases=["--stop-after"])] = None
    """Stop cleanly after this long; `megareward resume` goes on."""
    tensorboard: bool = True
    """Write TensorBoard files into the run's folder."""
    quiet: bool = False
    """Say nothing while training."""

    def keywords(self) -> dict[str, Any]:
        """As `training.run.start` and `resume` take them."""
        if self.minutes is not None and not self.minutes > 0:
            raise UsageError(f"--minutes is {self.minutes:g}; it must be above 0.")
        return {"minutes": self.minutes, "tensorboard": self.tensorboard, "quiet": self.quiet}


def print_summary(run: Path) -> None:
    """Say what came out of a run and where it is."""
    from megareward.analysis.describe import describe_run

    print(describe_run(run))
