"""The output of a run while it trains: a line on the terminal, metrics.jsonl, scores.jsonl and TensorBoard."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TextIO

from megareward.runs.durable import no_links
from megareward.runs.folder import RunFolder
from megareward.training.line import Now, ProgressLine
from megareward.training.score_book import Episode
from megareward.training.tracking import Tracker, WandbRun
from megareward.waiting import waiting


class Logger:
    """Writes every iteration to the logs and keeps one line on the terminal up to date."""

    def __init__(
        self,
        folder: RunFolder,
        frames: int,
        total: int,
        *,
        tensorboard: bool,
        quiet: bool,
        now: Callable[[], Now] | None = None,
        track: Tracker = "none",
    ) -> None:
        """`now`: returns the run's state, also within a rollout; without it only `log` moves the line. `track`: tracker
        that gets the metrics too."""
        self.folder, self.frames = folder, frames
        self.metrics: TextIO = open(folder.path / "metrics.jsonl", "a", opener=no_links)  # noqa: SIM115 - closed in `close`
        self.scores: TextIO = open(folder.path / "scores.jsonl", "a", opener=no_links)  # noqa: SIM115
        self.board = _tensorboard(folder, frames) if tensorboard else None
        self.tracker = WandbRun(folder) if track == "wandb" else None
        self.line = ProgressLine(now or (lambda: Now(self.frames)), total, quiet=quiet)

    def log(self, frames: int, metrics: dict[str, float], episodes: list[Episode], score: float | None) -> None:
        self.frames = frames
        row: dict[str, Any] = {"frames": frames, **metrics}
        if score is not None:
            row["score"] = score
        self.metrics.write(json.dumps(row) + "\n")
        for episode in episodes:
            self.scores.write(json.dumps(asdict(episode)) + "\n")
        self.metrics.flush()
        self.scores.flush()
        if self.board is not None:
            for name, value in row.items():
                self.board.add_scalar(name, value, frames)
        if self.tracker is not None:
            self.tracker.log(row)
        self.line.learnt(score, metrics)

    def say(self, text: str) -> None:
        self.line.say(text)

    def close(self) -> None:
        self.line.close()
        self.metrics.close()
        self.scores.close()
        if self.board is not None:
            self.board.close()
        if self.tracker is not None:
            self.tracker.close()


def _tensorboard(folder: RunFolder, frames: int) -> Any:
    try:
        with waiting("Loading TensorBoard"):
            from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        print(
            "TensorBoard is not installed, so its files are left out; metrics.jsonl has everything. "
            'pip install "megareward[tensorboard]" brings it, --no-tensorboard does without.',
            file=sys.stderr,
        )
        return None
    return SummaryWriter(folder.path / "tensorboard", purge_step=frames or None)
