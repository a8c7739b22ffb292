"""Sends metrics to an online tracker, beside the files that every run writes."""

import importlib.util
import uuid
from typing import Any, Literal

from megareward.errors import UsageError
from megareward.runs.durable import save_file
from megareward.runs.folder import RunFolder

Tracker = Literal["none", "wandb"]

IDENTITY = "wandb-id.txt"
"""File in a run's folder that holds the id of its run in the tracker."""


def check_tracker(track: Tracker) -> None:
    """Refuse a tracker that is not installed."""
    if track == "wandb" and importlib.util.find_spec("wandb") is None:
        raise UsageError("--track wandb needs the package wandb: pip install 'megareward[wandb]'.")


class WandbRun:
    """One run of Weights & Biases. A resumed run goes on in the same one; WANDB_MODE=offline needs no network."""

    def __init__(self, folder: RunFolder) -> None:
        check_tracker("wandb")
        import wandb

        kept = folder.path / IDENTITY
        if not kept.exists():
            save_file(kept, uuid.uuid4().hex[:12].encode())
        self.run: Any = wandb.init(
            project="megareward",
            name=folder.path.name,
            id=kept.read_text().strip(),
            resume="allow",
            dir=str(folder.path),
            config=folder.record()["config"],
        )

    def log(self, row: dict[str, Any]) -> None:
        """One iteration; the steps are frames."""
        self.run.log({name: value for name, value in row.items() if name != "frames"}, step=row["frames"])

    def close(self) -> None:
        self.run.finish()
