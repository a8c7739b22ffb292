"""What an experiment is: a table whose rows and columns change the config of a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal

from megareward.training.config import TrainConfig

Device = Literal["cpu", "cuda"]
Change = Callable[[TrainConfig], TrainConfig]


@dataclass(frozen=True)
class Cell:
    """One run and its place in the table."""

    row: str
    column: str
    config: TrainConfig
    before: "Cell | None" = None
    """A run that is made first, and that this one starts from."""

    def with_seed(self, seed: int) -> "Cell":
        before = self.before.with_seed(seed) if self.before else None
        start_from = before.name if before else self.config.start_from
        return replace(self, config=replace(self.config, seed=seed, start_from=start_from), before=before)

    @property
    def name(self) -> str:
        """Name of the run's folder and of its record."""
        return f"{self.row}-on-{self.column}-s{self.config.seed}".replace(" ", "-").replace(",", "")


@dataclass(frozen=True)
class Experiment:
    """A table: what it asks, and the runs that answer."""

    name: str
    question: str
    rows: dict[str, Change]
    columns: dict[str, Change]
    frames: int
    seeds: int = 3
    seeds_of: Mapping[str, int] = field(default_factory=dict)
    """Rows that have another number of seeds."""
    frames_of: Mapping[str, int] = field(default_factory=dict)
    """Rows that have another number of frames."""
    is_audit: bool = False
    """The table shows how true the learnt control maps are (`megareward audit`), not the score."""
    tuned_on: tuple[str, ...] = ()
    """Columns on which settings were chosen. If given, an audit is tabulated game by game, with the others apart."""
    is_long: bool = False
    """Its table shows only rows of which something is recorded."""
    between: tuple[str, str] | None = None
    """Rows whose scores are 0 and 1 of a second table, in which games can be averaged."""
    whole_games: int = 0
    """Games that each run plays after training, with its final policy; the record holds their scores."""
    metrics: tuple[str, ...] = ()
    """Metrics of which the records hold a curve, and the table the end."""

    def normalised(self, scores: Mapping[tuple[str, str], list[float]]) -> dict[str, dict[str, list[float]]]:
        """Scores by row and column, rescaled so that the means of the two rows `between`, taken as exact, are 0 and 1.
        Only rows that have all columns."""
        if self.between is None or not all((end, column) in scores for end in self.between for column in self.columns):
            return {}
        zero, one = ({c: fmean(scores[end, c]) for c in self.columns} for end in self.between)
        return {
            row: {c: [(score - zero[c]) / (one[c] - zero[c]) for score in scores[row, c]] for c in self.columns}
            for row in self.rows
            if all((row, column) in scores for column in self.columns)
        }

    def remarks(self, scores: Mapping[tuple[str, str], list[float]]) -> list[str]:
        """Lines to add below the table, given the scores by row and column."""
        return []

    def cells(self, frames: int | None = None, seeds: int | None = None, device: Device = "cpu") -> list[Cell]:
        """All runs, seed by seed, so that a table stopped half-way is a table of fewer seeds."""
        return [
            self._cell(row, column, seed, frames, device)
            for seed in range(seeds or max(self.seeds, *self.seeds_of.values(), 1))
            for column in self.columns
            for row in self.rows
            if seeds or seed < self.seeds_of.get(row, self.seeds)
        ]

    def cells_of(self, row: str, column: str, device: Device = "cpu") -> list[Cell]:
        """The runs of one place in the table, which differ in the seed only."""
        first = self._cell(row, column, 0, device=device)
        return [first.with_seed(seed) for seed in range(self.seeds_of.get(row, self.seeds))]

    def _cell(self, row: str, column: str, seed: int, frames: int | None = None, device: Device = "cpu") -> Cell:
        config = base_config(seed, frames or self.frames_of.get(row, self.frames), device)
        return Cell(row, column, self.rows[row](self.columns[column](config)))


def base_config(seed: int, frames: int, device: Device) -> TrainConfig:
    return TrainConfig("mega", "mini-pong", frames=frames, seed=seed, device=device)
