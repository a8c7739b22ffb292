"""A run in memory as a checkpoint, and back: everything that the next iteration depends on."""

from pathlib import Path
from typing import Any

from megareward.errors import UsageError
from megareward.rng import set_rng_state
from megareward.runs.checkpoint import FORMAT, DamagedError
from megareward.runs.folder import is_number
from megareward.state import State, check_fits, joined, part
from megareward.training.config import to_dict
from megareward.training.loop import Trainer
from megareward.types import Tensor

SMALL, POLICY = "what training needs", "what it takes to play"
WATCHED = "what it takes to play and to draw control maps"
"""Values of `kept` in the state of a copied checkpoint (`training.export`)."""
LEFT_OUT = ("rollout", "running", "env", "observer.control.replay", "observer.control.lagged")
"""Parts that a small copy leaves out: games start again, and replays fill again."""


def tensors_of(trainer: Trainer) -> State:
    """Every tensor by name; pending updates are finished first."""
    trainer.finish()
    parts = {
        "rollout": trainer.rollout.state_dict(),
        "env": trainer.env.state_dict() or {},
        "rng": {"state": trainer.generator.get_state()},
    }
    for name, observer in trainer.observers.items():
        parts |= {f"observer.{name}": observer.state_dict(), f"running.{name}": observer.running_state()}
    return trainer.agent.state_dict() | trainer.rewards.state_dict() | joined(**parts)


def state_of(trainer: Trainer) -> dict[str, Any]:
    """Counters and other plain values."""
    return {
        "format": FORMAT,
        "game": trainer.config.game,
        "method": trainer.config.method,
        "config": to_dict(trainer.config),
        "iteration": trainer.iteration,
        "frames": trainer.frames,
        "score_book": trainer.score_book.state(),
    }


def restore(trainer: Trainer, source: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Restore the run from the checkpoint `source`, with its games or, if they were not saved, with new ones. Tensors
    that do not fit this run count as damage."""
    check(trainer, state, source)
    check_state(trainer, state, source)
    expected = {name: tensor for name, tensor in tensors_of(trainer).items() if ".lagged." not in name}
    if state.get("kept") == SMALL:
        expected = without(LEFT_OUT, expected)
    try:
        check_fits(tensors, expected)  # the lagged copy alone may be missing: after a run without overlap
        load(trainer, tensors, state)
    except (RuntimeError, KeyError, IndexError, ValueError) as mismatch:
        raise DamagedError(f"it does not fit this run: {mismatch}") from mismatch


def load(trainer: Trainer, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    trainer.agent.load_state_dict(tensors)
    trainer.rewards.load_state_dict(tensors)
    for name, observer in trainer.observers.items():
        observer.load_state_dict(part(tensors, f"observer.{name}"))
    set_rng_state(trainer.generator, tensors["rng.state"])
    trainer.iteration, trainer.frames = state["iteration"], state["frames"]
    env_state = part(tensors, "env")
    exact = bool(env_state)
    trainer.score_book.load_state(state["score_book"], same_games=exact)
    if exact:
        trainer.env.load_state_dict(env_state)
        trainer.rollout.load_state_dict(part(tensors, "rollout"))
        for name, observer in trainer.observers.items():
            observer.load_running_state(part(tensors, f"running.{name}"))
    else:
        # A new seed, or every restart would replay the same episodes.
        trainer.begin((trainer.config.seed + 1_000_003 * trainer.iteration) % 2**31)


def without(parts: tuple[str, ...], tensors: State) -> State:
    return {name: tensor for name, tensor in tensors.items() if not name.startswith(tuple(f"{p}." for p in parts))}


def check_state(trainer: Trainer, state: dict[str, Any], source: Path) -> None:
    """Check that the plain values have the right types and belong to this checkpoint."""
    try:
        book, sizes = state["score_book"], state["log_sizes"]
        counts = [state["iteration"], state["frames"], book["episodes"], *book["steps"], *sizes.values()]
        numbers = [*book["running"], *book["recent"]]
    except (KeyError, TypeError, AttributeError) as missing:
        raise DamagedError("state.json is not what was written") from missing
    of_every_env = len(book["steps"]) == len(book["running"]) == trainer.env.n_envs
    whole = all(isinstance(value, int) and value >= 0 for value in counts) and all(map(is_number, numbers))
    if not (whole and of_every_env and state["frames"] == int(source.name)):
        raise DamagedError("state.json is not what was written")


def check(trainer: Trainer, state: dict[str, Any], source: Path) -> None:
    """Refuse a checkpoint of another run."""
    if state.get("format", 1) != FORMAT:
        raise UsageError(
            f"{source} was written by an older megareward. It can be evaluated, audited, watched and reported, but "
            "not resumed: use the megareward that wrote it, or start a new run."
        )
    if (kept := state.get("kept")) in (POLICY, WATCHED):
        raise UsageError(f"{source} holds no more than {kept}, so it cannot be resumed; `megareward eval` takes it.")
    for what in ("game", "method"):
        if state.get(what) != getattr(trainer.config, what):
            raise UsageError(
                f"{source} is a checkpoint of {what} '{state.get(what)}', but this run's config says "
                f"'{getattr(trainer.config, what)}'; checkpoints cannot move between runs."
            )
