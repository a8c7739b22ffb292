"""The benchmark's truth sets: anybody can make them from the emulator alone, and they are the same for everybody.

A set is the truth of `Plan()` about a game with its default settings on the default grid. Its checksum is that of its
content, not of the file; `checksums.json` beside this module has the recorded ones. A small set, `SMALL`, is made in
seconds. Nothing is scored on it, but if its checksum is as recorded, so are emulator and branching.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from megareward.audit.record import Plan, find_truth
from megareward.audit.truth import Truth
from megareward.errors import RunError
from megareward.training.config import TrainConfig

CHECKSUMS = Path(__file__).with_name("checksums.json")
SMALL = Plan(episodes=2, frames=40, lags=8)


class TruthSet(NamedTuple):
    """One game's set, and whether it is the recorded one."""

    game: str
    path: Path
    steps: int
    checksum: str
    verdict: str


def checksum(truth: Truth) -> str:
    """Checksum of every frame, action and changed cell, and of nothing else."""
    digest = hashlib.sha256(json.dumps([truth.about["grid"], truth.lags, truth.action_names]).encode())
    for episode in truth.episodes:
        for name, values in sorted(vars(episode).items()):
            digest.update(f"{name} {values.dtype} {tuple(values.shape)}".encode())
            digest.update(values.contiguous().numpy().tobytes())
    return digest.hexdigest()


def recorded() -> dict[str, str]:
    """The recorded checksums by game; those of small sets by `GAME small`."""
    checksums: dict[str, str] = json.loads(CHECKSUMS.read_text())
    return checksums


def key(game: str, plan: Plan) -> str | None:
    """Name under which a set's checksum is recorded; None if the set is not one of the benchmark."""
    return {Plan(): game, SMALL: f"{game} small"}.get(plan)


def verdict(game: str, plan: Plan, found: str) -> str:
    """The result of comparing a checksum: `recorded`, `differs`, `not recorded yet`, or that this is not the
    benchmark's set."""
    name = key(game, plan)
    if name is None:
        return "not the benchmark's episodes"
    known = recorded().get(name)
    return "not recorded yet" if known is None else "recorded" if known == found else "differs"


def make_truth(
    game: str,
    folder: Path,
    *,
    small: bool = False,
    processes: int = 0,
    record: bool = False,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> TruthSet:
    """Find the truth about a game, or read it if it was found before, and compare its checksum.

    small: the small set in place of the one that is scored on.
    record: record the checksum of a game that has none yet.
    """
    config, plan = TrainConfig("mega", game), SMALL if small else Plan()
    truth, path = find_truth(config, plan, folder, processes=processes, progress=progress)
    found, name = checksum(truth), str(key(config.game, plan))
    says = verdict(config.game, plan, found)
    if says == "differs":
        raise RunError(
            f"The truth about {config.game} in {path} has the checksum {found[:16]}, recorded is "
            f"{recorded()[name][:16]}: other versions of ale-py or torch, or a change of the games. "
            "Remove the file and try again; scores on it compare with no others."
        )
    if says == "not recorded yet" and record:
        known = recorded() | {name: found}
        CHECKSUMS.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
        says = "recorded now"
    return TruthSet(config.game, path, sum(len(e.actions) for e in truth.episodes), found, says)
