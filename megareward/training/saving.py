"""A run in memory as a checkpoint, and back: everything that the next iteration depends on."""

from pathlib import Path
from typing import Any

from megareward.errors import UsageError
from megareward.rng import set_rng_state
from megareward.runs.checkpoint import FORMAT
from megareward.state import State, joined, part
from megareward.training.loop import Trainer
from megareward.types import Tensor


def tensors_of(trainer: Trainer) -> State:
    """Every tensor by name; work that is still under way is finished first."""
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
        "iteration": trainer.iteration,
        "frames": trainer.frames,
        "score_book": trainer.score_book.state(),
    }


def restore(trainer: Trainer, tensors: dict[str, Tensor], state: dict[str, Any], source: Path) -> bool:
    """Go on from a checkpoint. True if the games themselves go on; False where the emulator starts new ones."""
    check(trainer, state, source)
    try:
        trainer.agent.load_state_dict(tensors)
    except (RuntimeError, UsageError) as mismatch:
        raise UsageError(f"{source} does not fit this run's network: {mismatch}") from mismatch
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
    return exact


def check(trainer: Trainer, state: dict[str, Any], source: Path) -> None:
    """Refuse a checkpoint that is not this run's."""
    if state.get("format", 1) != FORMAT:
        raise UsageError(
            f"{source} was written by an older megareward. It can be evaluated, audited, watched and reported, but "
            "not resumed: use the megareward that wrote it, or start a new run."
        )
    for what in ("game", "method"):
        if state[what] != getattr(trainer.config, what):
            raise UsageError(
                f"{source} is a checkpoint of {what} '{state[what]}', but this run's config says "
                f"'{getattr(trainer.config, what)}'; checkpoints cannot move between runs."
            )
