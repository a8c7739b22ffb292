"""What `train` and `resume` share: how a run is made, as opposed to what is trained."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import tyro

from megareward.cli.parsing import Count
from megareward.errors import UsageError
from megareward.training.tracking import Tracker


@dataclass(frozen=True)
class RunOptions:
    """None of these changes what is learnt, and none is kept in the run's config."""

    minutes: Annotated[float | None, tyro.conf.arg(aliases=["--stop-after"])] = None
    """Stop cleanly after this long; `megareward resume` goes on."""
    tensorboard: bool = True
    """Write TensorBoard files into the run's folder."""
    quiet: bool = False
    """Say nothing while training."""
    track: Tracker = "none"
    """wandb: metrics go to Weights & Biases, too (pip install 'megareward[wandb]'; WANDB_MODE=offline: into the run's
    folder)."""
    live: bool = False
    """Serve a page about the run while it trains, for this machine only: its curves and its newest game."""
    eval_every: Count = 0
    """Play whole games with the newest policy every so many frames, such as 1M, and append their scores to eval.jsonl;
    0: never."""
    eval_episodes: int = 10
    """Games of each such evaluation."""

    def keywords(self) -> dict[str, Any]:
        """As `training.run.start` and `resume` take them."""
        if self.minutes is not None and not self.minutes > 0:
            raise UsageError(f"--minutes is {self.minutes:g}; it must be above 0.")
        if self.eval_episodes < 1:
            raise UsageError(f"--eval-episodes is {self.eval_episodes}; it must be at least 1.")
        return {field.name: getattr(self, field.name) for field in fields(RunOptions)}


def print_summary(run: Path) -> None:
    """Say what came out of a run and where it is."""
    from megareward.analysis.describe import describe_run

    print(describe_run(run))
