"""A run that can be carried: the newest checkpoint made small, in files of limited size, with the run's logs."""

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from megareward.errors import UsageError, warn
from megareward.runs.checkpoint import load_newest, save_checkpoint
from megareward.runs.durable import replace_synced
from megareward.runs.folder import LOGS, PACKED, ExistsError, RunFolder
from megareward.runs.record import Record
from megareward.state import State
from megareward.training.config import TrainConfig, read_config
from megareward.training.saving import LEFT_OUT, POLICY, SMALL, WATCHED, without

LARGEST_FILE = 15_000_000
"""Bytes of tensors in one file."""


@dataclass(frozen=True)
class Kind:
    """What a copy is for."""

    kept: str
    """The entry `kept` in its checkpoint's state."""
    lost: str
    files: tuple[str, ...]
    """Files of the run that are copied unchanged."""


_LOGS = (*LOGS, "processes.jsonl", "eval.jsonl")
KINDS = {
    "small": Kind(
        SMALL,
        "games under way, the rollout and the replay, the lagged copy of the control models, and digits: weights are "
        "float16, moments of the optimisers bfloat16",
        (*_LOGS, "start.safetensors"),
    ),
    "policy": Kind(POLICY, "all that training needs; what is left plays, and cannot be resumed", _LOGS),
    "watch": Kind(
        WATCHED,
        "all that training needs, the logs, and digits: weights are float16, those of the policy's largest layer have "
        "8 bits; what is left plays and draws control maps, and cannot be resumed",
        (),
    ),
}


@dataclass(frozen=True)
class Exported:
    """What was written."""

    path: Path
    lost: str
    files: dict[str, int]
    """Bytes of each file, by its path in the folder."""


def export_run(run: Path, out: Path, name: str = "small") -> Exported:
    """Write a small copy of a run to `out`; `name` is one of `KINDS`."""
    kind = KINDS[name]
    folder = RunFolder.open(run)
    config = read_config(folder, warn)
    found = load_newest(folder.checkpoints, warn)
    if found is None:
        raise UsageError(f"{run} has no checkpoint yet; `megareward resume {run}` trains it first.")
    _, tensors, state = found
    if out.exists():
        raise ExistsError(out)
    if (kept := state.get("kept")) in (POLICY, WATCHED) and kind.kept != POLICY:
        raise UsageError(f"{run} holds no more than {kept}; export the run that it is a copy of.")
    tensors = without(LEFT_OUT, tensors)
    if kind.kept != SMALL:
        tensors = played_with(config, tensors, maps=kind.kept == WATCHED)
        if not tensors:
            raise UsageError(f"'{config.method}' trains no policy, so {run} has none to export.")
    about = {}
    if kind.kept == WATCHED:
        about["README.md"] = readme(Record.of_run(run)).encode()
        del state["score_book"]
    carried = RunFolder.create(out, folder.record(), about)
    for file in kind.files:
        if (run / file).exists():
            shutil.copyfile(run / file, out / file, follow_symlinks=False)
    state["kept"], few_bits = kind.kept, kind.kept == WATCHED
    save_checkpoint(carried.checkpoints, state["frames"], tensors, state, small=LARGEST_FILE, eight_bits=few_bits)
    files = {str(path.relative_to(out)): path.stat().st_size for path in sorted(out.rglob("*")) if path.is_file()}
    return Exported(out, kind.lost, files)


def pack_run(run: Path, out: Path, name: str = "small") -> Exported:
    """The same copy as one file, `out`; unpacking it gives a folder of that name without the ending."""
    if out.exists():
        raise ExistsError(out)
    [ending] = [end for end in PACKED if out.name.endswith(end)]
    folder, scratch = out.name.removesuffix(ending), out.with_name(f".{out.name}-{os.getpid()}")
    try:
        done = export_run(run, scratch / folder, name)
        packed = shutil.make_archive(str(scratch / "packed"), PACKED[ending], root_dir=scratch, base_dir=folder)
        replace_synced(out, Path(packed).read_bytes())
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return replace(done, path=out, files={out.name: out.stat().st_size})


def played_with(config: TrainConfig, tensors: State, maps: bool = False) -> State:
    """Tensors of the policy and of the observers that it needs to act; with `maps`, of all observers."""
    observers = config.observers if maps else config.observers_of_policy
    needed = ("policy.", *(f"observer.{name}." for name in observers))
    return {name: t for name, t in tensors.items() if name.startswith(needed) and ".optimiser." not in name}


def readme(record: Record) -> str:
    """Text about where an agent comes from and how well it plays."""
    where = record.provenance
    return (
        f"# {record.game}, {record.label}, seed {record.seed}\n\n"
        f"Trained for {record.length} frames; {score(record)}. Made by commit {where.get('commit') or 'unknown'} of "
        f"megareward {where.get('megareward', '')} on {where.get('device', 'an unknown device')}. All settings are in "
        "config.json. `megareward watch` shows this folder; it cannot be resumed.\n"
    )


def score(record: Record) -> str:
    """The score in words: of whole games after training if there were any, else of the last games of training."""
    if record.score is None and not record.evaluations:
        return "no game was finished"
    if not record.evaluations:
        return f"mean score {record.score:.1f} over the last {record.episodes_in_score} games of training"
    scores = record.evaluations[-1]["scores"]
    error = f" +- {np.std(scores, ddof=1) / len(scores) ** 0.5:.1f}" if len(scores) > 1 else ""
    return f"mean score {np.mean(scores):.1f}{error} over {len(scores)} whole games"
