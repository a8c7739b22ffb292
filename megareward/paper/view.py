"""The records as a builder gets them: the cells of one table, each with its seeds, interval, frames and marks."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from megareward.analysis.published import published, published_score
from megareward.envs.mini import TUNING_GAMES
from megareward.experiments.plans import TUNED_ON, Experiment
from megareward.paper.blocks import Number
from megareward.paper.recorded import Ours, Recorded, ours
from megareward.quantities import short_count
from megareward.statistics.bootstrap import interval
from megareward.viewer.bars import Bar


@dataclass(frozen=True)
class View:
    """One experiment of an item."""

    name: str
    """Name of its figures, from those of the item and the scale."""
    experiment: Experiment
    instead: tuple[Experiment, ...]
    recorded: Recorded

    @property
    def rows(self) -> list[str]:
        return list(self.experiment.rows)

    @property
    def columns(self) -> list[str]:
        return list(self.experiment.columns)

    def ours(self, row: str, column: str) -> Ours | None:
        if row not in self.experiment.rows:
            return None
        return ours(self.recorded, self.experiment, self.instead, row, column)

    def game(self, column: str) -> str:
        return self.experiment.cells_of(self.rows[0], column)[0].config.game

    def random(self, column: str) -> float | None:
        """Score of random play: as published, or else as we measured it."""
        if (score := published_score("random", self.game(column))) is not None:
            return score
        found = self.ours("random", column)
        return found.mean if found else None

    def number(self, row: str, column: str, beside: str = "") -> Number:
        """The score of one cell; `beside`: the published column that is shown with it."""
        score = published_score(beside, self.game(column)) if beside in published() else None
        return self.shown(
            self.ours(row, column), column, lambda own: own.scores, "" if score is None else f"paper {score:g}"
        )

    def shown(
        self,
        own: Ours | None,
        column: str,
        values: Callable[[Ours], list[float]],
        beside: str = "",
        digits: str = ".4g",
    ) -> Number:
        """A mean over the seeds with its interval; a single seed has none."""
        numbers = values(own) if own else []
        if not own or not numbers:
            return Number(beside=beside, marks=self.tuned(column))
        spread = ""
        if len(numbers) > 1:
            low, high = interval(numbers)
            spread = f"[{low:{digits}}, {high:{digits}}]"
        seeds = "1 seed" if len(numbers) == 1 else f"{len(numbers)} seeds"
        return Number(
            f"{sum(numbers) / len(numbers):{digits}}",
            spread,
            f"{seeds}, {short_count(own.frames)}",
            self.marks(own, column),
            beside,
            tuple(Path(one.path.parent.name) / one.path.name for one in own.found),
        )

    def tuned(self, column: str) -> str:
        return "t" if self.game(column) in (*TUNED_ON, *TUNING_GAMES) else ""

    def marks(self, own: Ours, column: str) -> str:
        return "b" * own.is_other_budget + "s" * own.is_other_settings + self.tuned(column)

    def bar(
        self, own: Ours | None, column: str, equation: Callable[[float], float | None], *others: Ours | None
    ) -> Bar | str | None:
        """The mean and interval of a relative score; `others`: the runs that it is relative to. Words if these are
        no better than random play, None if nothing is recorded."""
        scores = [score for score in map(equation, own.scores) if score is not None] if own else []
        if not own or not scores:
            return "no scale: no better than random play" if own else None
        marks = "".join(sorted({mark for one in (own, *others) if one for mark in self.marks(one, column)}))
        low, high = interval(scores) if len(scores) > 1 else (None, None)
        return Bar(sum(scores) / len(scores), low, high, marks)
