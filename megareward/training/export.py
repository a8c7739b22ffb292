"""A run that can be carried: the newest checkpoint made small, in files of limited size, with the run's logs."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from megareward.errors import UsageError, warn
from megareward.runs.checkpoint import load_newest, save_checkpoint
from megareward.runs.folder import LOGS, ExistsError, RunFolder
from megareward.state import State
from megareward.training.config import TrainConfig, read_config
from megareward.training.saving import LEFT_OUT, POLICY, SMALL, without

LARGEST_FILE = 15_000_000
"""Bytes of tensors in one file."""
LOST = (
    "games under way, the rollout and the replay, the lagged copy of the control models, and digits: weights are "
    "float16, moments of the optimisers bfloat16"
)


@dataclass(frozen=True)
class Exported:
    """What was written."""

    path: Path
    lost: str
    files: dict[str, int]
    """Bytes of each file, by its path in the folder."""


def export_run(run: Path, out: Path, *, policy_only: bool = False) -> Exported:
    """Write a small copy of a run to `out`. `policy_only`: just what it takes to play, which cannot be resumed."""
    folder = RunFolder.open(run)
    config = read_config(folder, warn)
    found = load_newest(folder.checkpoints, warn)
    if found is None:
        raise UsageError(f"{run} has no checkpoint yet; `megareward resume {run}` trains it first.")
    _, tensors, state = found
    if out.exists():
        raise ExistsError(out)
    kept = without(LEFT_OUT, tensors)
    if policy_only:
        kept = played_with(config, kept)
        if not kept:
            raise UsageError(f"'{config.method}' trains no policy, so {run} has none to export.")
    record: dict[str, Any] = folder.record()
    carried = RunFolder.create(out, record)
    for log in (*LOGS, "processes.jsonl", "eval.jsonl"):
        if (run / log).exists():
            shutil.copyfile(run / log, out / log, follow_symlinks=False)
    start = run / "start.safetensors"
    if start.exists() and not policy_only:
        shutil.copyfile(start, out / start.name, follow_symlinks=False)
    about = state | {"kept": POLICY if policy_only else SMALL}
    save_checkpoint(carried.checkpoints, state["frames"], kept, about, small=LARGEST_FILE)
    files = {str(path.relative_to(out)): path.stat().st_size for path in sorted(out.rglob("*")) if path.is_file()}
    lost = "all that training needs; what is left plays, and cannot be resumed" if policy_only else LOST
    return Exported(out, lost, files)


def played_with(config: TrainConfig, tensors: State) -> State:
    """The policy, and the models of observers without which it cannot act."""
    needed = ("policy.", *(f"observer.{name}." for name in config.observers_of_policy))
    return {name: t for name, t in tensors.items() if name.startswith(needed) and ".optimiser." not in name}
