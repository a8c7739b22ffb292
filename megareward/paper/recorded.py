"""Finds records of a run by its settings, in any folder, so that a run made for one table serves all."""

import functools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from megareward.experiments.plans import Cell, Experiment
from megareward.runs.record import Record, read_record_files
from megareward.training.config import TrainConfig, bearing, flat, to_dict
from megareward.training.presets import with_preset


@dataclass(frozen=True)
class Found:
    """A record and the file that holds it."""

    path: Path
    record: Record

    @cached_property
    def settings(self) -> dict[str, Any]:
        return settings_of(self.record.config)


class Recorded:
    """All finished records under some folders."""

    def __init__(self, places: Iterable[Path]) -> None:
        self._records: dict[tuple[str, str, int], list[Found]] = defaultdict(list)
        for path, record in read_record_files(place for place in places if place.exists()):
            if record.finished:
                self._records[record.game, record.config["method"], record.seed].append(Found(path, record))

    def find(self, cell: Cell, any_length: bool = False) -> Iterator[Found]:
        """The records of this run; `any_length`: also with another number of frames, the longest first."""
        config = cell.config
        if not (candidates := self._records.get((config.game, config.method, config.seed))):
            return
        wanted, usual = settings_of(to_dict(config)), usual_settings(config.method, config.game)
        for one in sorted(candidates, key=lambda one: -one.record.frames):
            # A setting that is newer than the record had its usual value.
            is_same = {**usual, **one.settings}.items() >= wanted.items() and one.settings.keys() <= wanted.keys()
            if is_same and (any_length or one.record.config["frames"] == config.frames):
                yield one


def settings_of(config: dict[str, Any]) -> dict[str, Any]:
    """Settings that affect learning, without the length of training and the seed: by dotted name, each as JSON."""
    bears = {name: value for name, value in bearing(config).items() if name not in ("frames", "seed")}
    return {name: json.dumps(value) for name, value in flat(bears).items()}


@functools.cache
def usual_settings(method: str, game: str) -> dict[str, Any]:
    """The settings of `megareward train METHOD --game GAME`."""
    return settings_of(to_dict(with_preset(TrainConfig(method, game), "auto")))


@dataclass(frozen=True)
class Ours:
    """The records for one cell of a table, one per seed."""

    found: tuple[Found, ...]
    is_other_budget: bool = False
    """Whether frames are more or fewer than planned."""
    is_other_settings: bool = False
    """Whether settings other than the frames differ from the plan."""

    @cached_property
    def scores(self) -> list[float]:
        return [score for one in self.found if (score := one.record.score) is not None]

    @property
    def mean(self) -> float:
        return sum(self.scores) / len(self.scores) if self.scores else float("nan")

    @property
    def frames(self) -> int:
        return int(self.found[0].record.config["frames"])

    @property
    def audits(self) -> list[dict[str, Any]]:
        return [one.record.audit for one in self.found if one.record.audit]


def ours(recorded: Recorded, planned: Experiment, instead: Iterable[Experiment], row: str, column: str) -> Ours | None:
    """The recorded ones among the planned runs of a cell; if there are none, those of the experiments `instead`, then
    those of another length. Records from elsewhere are marked by what differs."""
    sources = [one for one in (planned, *instead) if row in one.rows and column in one.columns]
    wanted = planned.cells_of(row, column)[0].config
    has_own_length = row not in planned.frames_of and wanted.frames != planned.frames  # such as: twice as long
    for any_length in (False,) if has_own_length else (False, True):
        for source in sources:
            cells = source.cells_of(row, column)
            seeds = [next(recorded.find(cell, any_length), None) for cell in cells]
            found = [one for one in seeds if one]
            longest = [one for one in found if one.record.config["frames"] == found[0].record.config["frames"]]
            if longest:
                return Ours(
                    tuple(longest),
                    longest[0].record.config["frames"] != wanted.frames,
                    source is not planned and settings_of(to_dict(wanted)) != settings_of(to_dict(cells[0].config)),
                )
    return None
