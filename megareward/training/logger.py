"""What a run tells while it works: a line on the terminal, metrics.jsonl, scores.jsonl and TensorBoard."""

import json
import sys
import time
from dataclasses import asdict
from typing import Any, TextIO

from megareward.quantities import count, duration
from megareward.runs.durable import no_links
from megareward.runs.folder import RunFolder
from megareward.training.score_book import Episode

SHOWN = {"loss/policy": "policy", "loss/value": "value", "loss/entropy": "entropy"}


class Logger:
    """Writes every iteration to the logs and keeps one line on the terminal up to date."""

    def __init__(self, folder: RunFolder, frames: int, total: int, *, tensorboard: bool, quiet: bool) -> None:
        self.folder, self.total = folder, total
        self.metrics: TextIO = open(folder.path / "metrics.jsonl", "a", opener=no_links)  # noqa: SIM115 - closed in `close`
        self.scores: TextIO = open(folder.path / "scores.jsonl", "a", opener=no_links)  # noqa: SIM115
        self.board = _tensorboard(folder, frames) if tensorboard else None
        self.line = _Line(frames, total, quiet)

    def log(self, frames: int, metrics: dict[str, float], episodes: list[Episode], score: float | None) -> None:
        rate, left = self.line.pace(frames)
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
        self.line.show(frames, rate, left, score, metrics)

    def say(self, text: str) -> None:
        self.line.say(text)

    def close(self) -> None:
        self.line.close()
        self.metrics.close()
        self.scores.close()
        if self.board is not None:
            self.board.close()


def _tensorboard(folder: RunFolder, frames: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        print(
            "TensorBoard is not installed, so its files are left out; metrics.jsonl has everything. "
            'pip install "megareward[tensorboard]" brings it, --no-tensorboard does without.',
            file=sys.stderr,
        )
        return None
    return SummaryWriter(folder.path / "tensorboard", purge_step=frames or None)


class _Line:
    """Frames, rate, time left, score and losses: live on a terminal, a plain line now and then elsewhere."""

    PLAIN_EVERY = 10.0
    """Seconds between plain lines."""

    def __init__(self, frames: int, total: int, quiet: bool) -> None:
        self.begun, self.frames_then, self.total, self.quiet = time.monotonic(), frames, total, quiet
        self.last_plain = self.begun - self.PLAIN_EVERY + 2.0
        self.live: Any = None
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self.live = Live(console=Console(stderr=True), refresh_per_second=4, transient=False)
            self.live.start()

    def pace(self, frames: int) -> tuple[float, float]:
        """Frames per second since this process began, and seconds left at that rate."""
        rate = (frames - self.frames_then) / max(time.monotonic() - self.begun, 1e-9)
        return rate, max(self.total - frames, 0) / max(rate, 1e-9)

    def show(self, frames: int, rate: float, left: float, score: float | None, metrics: dict[str, float]) -> None:
        if self.quiet:
            return
        losses = "  ".join(f"{label} {metrics[name]:.3g}" for name, label in SHOWN.items() if name in metrics)
        recent = "no episode yet" if score is None else f"score {score:.4g}"
        text = (
            f"{100 * min(frames / self.total, 1):3.0f}%  {count(frames)} of {count(self.total)} frames  "
            f"{count(rate)}/s  {duration(left)} left  {recent}  {losses}"
        )
        if self.live is not None:
            from rich.text import Text

            self.live.update(Text(text, overflow="ellipsis", no_wrap=True))
        elif time.monotonic() - self.last_plain >= self.PLAIN_EVERY or frames >= self.total:
            self.last_plain = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        if self.live is not None:
            self.live.console.print(text, markup=False, highlight=False)
        elif not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None
