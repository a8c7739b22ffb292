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
    """Options that neither change what is learnt nor are kept in the run's config."""

    minutes: Annotated[float | None, tyro.conf.arg(aliases=["--stop-after"])] = None
    """Stop with a checkpoint after this many minutes; `megareward resume` continues."""
    tensorboard: bool = True
    """Write TensorBoard files into the run's folder."""
    quiet: bool = False
    """Print nothing while training."""
    track: Tracker = "none"
    """wandb: also send metrics to Weights & Biases (pip install 'megareward[wandb]'; with WANDB_MODE=offline they stay
    in the run's folder)."""
    live: bool = False
    """While training, serve a page with the run's curves and its newest game, for browsers on this machine only."""
    eval_every: Count = 0
    """Evaluate every so many frames, such as 1M: play whole games with the newest policy and append their scores to
    eval.jsonl. 0: never."""
    eval_episodes: int = 10
    """Games per evaluation."""

    def keywords(self) -> dict[str, Any]:
        """These options as keyword arguments of `training.run.start` and `resume`."""
        if self.minutes is not None and not self.minutes > 0:
            raise UsageError(f"--minutes is {self.minutes:g}; it must be above 0.")
        if self.eval_episodes < 1:
            raise UsageError(f"--eval-episodes is {self.eval_episodes}; it must be at least 1.")
        return {field.name: getattr(self, field.name) for field in fields(RunOptions)}


def print_summary(run: Path) -> None:
    """Print the results of a run and where it is."""
    from megareward.analysis.describe import describe_run

    print(describe_run(run))
