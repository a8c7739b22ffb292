"""`--from RUN`: what a run takes over from another one, and what it does not.

  carried over    the policy's trunk, its action head and its statistics of the frames, if both runs have a policy; all
                  that an observer has learnt (control models, a world model), if both runs have that observer
  fresh           value heads, which belong to rewards; the optimiser; all schedules; the models of rewards; the games

The new run's folder keeps a copy, so that the other one is no longer needed.
"""

import hashlib
from pathlib import Path
from typing import Any

import safetensors.torch

from megareward.errors import RunError, UsageError, warn
from megareward.ppo.agent import CARRIED_OVER, RandomAgent
from megareward.quantities import count
from megareward.runs.folder import RunFolder
from megareward.state import MismatchError, State, check_fits, joined, part
from megareward.training.config import TrainConfig, read_config
from megareward.training.evaluate import newest_tensors
from megareward.training.loop import Trainer

START = "start.safetensors"
"""File in a run's folder that holds what it has taken over."""
IN_WORDS = {"trunk": "the policy's trunk", "action_head": "its action head", "normaliser": "its statistics of frames"}
ALWAYS_FRESH = "optimiser, schedules and the models of rewards"


def require_source(config: TrainConfig) -> None:
    wanted = config.method_row.starts_from
    if wanted is not None and config.start_from is None:
        raise UsageError(
            f"'{config.method}' needs a run of '{wanted}' to start from: make one by `megareward train {wanted}`, of "
            "the same game, and name its folder by --from."
        )


def take_over(trainer: Trainer) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What is taken over from the run named in the config: a description for config.json, and the file that holds it.
    It is also loaded into `trainer`, so that what does not fit is refused before there is a folder."""
    config = trainer.config
    source = RunFolder.open(Path(config.start_from or ""))
    tensors, frames = newest_tensors(source, warn)
    theirs = read_config(source, warn)
    if config.method_row.starts_from not in (None, theirs.method):
        raise UsageError(
            f"'{config.method}' starts from a run of '{config.method_row.starts_from}', but {source.path} was trained "
            f"with '{theirs.method}'; give another run with --from."
        )
    policy: State = {}
    if not isinstance(trainer.agent, RandomAgent):
        policy = {name: t for name, t in part(tensors, "policy").items() if name.split(".")[0] in CARRIED_OVER}
    observers = {f"observer.{name}": part(tensors, f"observer.{name}") for name in trainer.observers}
    taken = policy | joined(**observers)
    if not taken:
        raise UsageError(
            f"{source.path} was trained with '{theirs.method}', which has neither a policy nor an observer that "
            f"'{config.method}' could start from; choose another run, or leave --from out."
        )
    load(trainer, taken, str(source.path))
    data = safetensors.torch.save({name: tensor.contiguous() for name, tensor in taken.items()})
    about = {"run": str(source.path), "method": theirs.method, "game": theirs.game, "frames": frames}
    return about | {"sha256": hashlib.sha256(data).hexdigest()}, {START: data}


def begin_from(trainer: Trainer, folder: RunFolder) -> str:
    """Load what the run has taken over, from its folder. Returns a message about it."""
    path = folder.path / START
    if not path.exists():
        raise RunError(f"{path} is missing, which the run was to start from; bring it back, or start a new run.")
    about, data = folder.record().get("start", {}), path.read_bytes()
    if hashlib.sha256(data).hexdigest() != about.get("sha256"):
        raise RunError(f"{path} is not what the run was to start from: its hash is wrong; start a new run.")
    taken = safetensors.torch.load(data)
    load(trainer, taken, str(path))
    whose = f"{about['run']} ({about['method']} on {about['game']}, {count(about['frames'])} frames)"
    return f"Starting from {whose}. {in_words(trainer, taken)}"


def load(trainer: Trainer, taken: State, source: str) -> None:
    """Load `taken` into the run, or raise a `UsageError` that names the first tensor that does not fit."""
    if policy := {name: tensor for name, tensor in taken.items() if not name.startswith("observer.")}:
        trainer.agent.load_policy(policy, CARRIED_OVER)
    for name, observer in trainer.observers.items():
        if learnt := part(taken, f"observer.{name}"):
            try:
                check_fits(learnt, observer.state_dict())
                observer.load_state_dict(learnt)
            except (MismatchError, RuntimeError, KeyError) as mismatch:
                raise UsageError(
                    f"What the observer '{name}' has learnt in {source} does not fit this run: {mismatch}. Give both "
                    "runs the same settings of it, as many environments and a game with as many actions."
                ) from mismatch


def in_words(trainer: Trainer, taken: State) -> str:
    """What is carried over and what is fresh, in one sentence each."""
    parts = {name.split(".")[0] for name in taken}
    carried = [words for name, words in IN_WORDS.items() if name in parts]
    learnt = {name.split(".")[1] for name in taken if name.startswith("observer.")}
    carried += [f"what the observer '{name}' has learnt" for name in trainer.observers if name in learnt]
    fresh = ["value heads"] if "trunk" in parts else ["the whole policy"]
    fresh += [f"the observer '{name}'" for name in trainer.observers if name not in learnt]
    return f"Carried over: {', '.join(carried)}. Fresh: {', '.join([*fresh, ALWAYS_FRESH])}."
