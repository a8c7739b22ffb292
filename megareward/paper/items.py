"""Every table and figure of the paper as a row: its runs by scale, and the builder that draws it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from megareward.errors import UsageError, suggestion
from megareward.experiments import paper_plans as plans
from megareward.experiments.plans import ATARI, ATARI_LONG, Experiment
from megareward.paper import builders
from megareward.paper.blocks import Block
from megareward.paper.recorded import Recorded
from megareward.paper.view import View

Builder = Callable[[View], list[Block]]
SCALES = MappingProxyType(
    {"smoke": "mini games, a few thousand frames", "mini": "mini games", "10M": "Atari", "80M": "Atari"}
)


@dataclass(frozen=True)
class Budget:
    """How much is trained and evaluated for every item."""

    name: str
    scales: tuple[str, ...]
    runs: Path = Path("runs") / "experiments"
    results: Path = Path("results") / "experiments"
    audit: tuple[str, ...] = ()
    """Options of `megareward audit`."""
    picture: tuple[str, ...] = ()
    """Options of `megareward figure case-study`."""


SMOKE_FOLDER = Path("runs") / "paper-smoke"
BUDGETS = {
    budget.name: budget
    for budget in (
        Budget(
            "smoke",
            ("smoke",),
            SMOKE_FOLDER / "runs",
            SMOKE_FOLDER / "results",
            audit=("--lags", "4", "--frames", "40", "--episodes", "2"),
            picture=("--steps", "150"),
        ),
        Budget("small", ("mini", "10M")),
        Budget("full", ("mini", "80M")),
    )
}


@dataclass(frozen=True)
class Item:
    """A table or a figure."""

    name: str
    title: str
    place: str
    """Place in the paper."""
    experiments: Mapping[str, Experiment]
    """By scale."""
    build: Builder
    instead: tuple[Experiment, ...] = ()
    """Experiments whose runs are shown, with a mark, if planned runs are missing."""
    is_audited: bool = False
    has_picture: bool = False

    def planned(self, budget: Budget) -> list[Experiment]:
        return [self.experiments[scale] for scale in budget.scales]

    def views(self, budget: Budget, recorded: Recorded) -> Iterator[tuple[str, View]]:
        """The views that its builder draws, by scale."""
        for scale in budget.scales:
            others = [self.experiments[one] for one in ("80M", "10M") if one != scale]
            planned = self.experiments[scale]
            yield SCALES[scale], View(f"{self.name}-{scale}", planned, (*self.instead, *others), recorded)


MADE_BEFORE = (ATARI_LONG, ATARI)
ITEMS = {
    item.name: item
    for item in (
        Item("play", "Mega-reward against six baselines", "Table 1", plans.PLAY, builders.play, MADE_BEFORE),
        Item(
            *("more-baselines", "More baselines of intrinsically-motivated play", "supplement, table"),
            *(plans.MORE, builders.scores, MADE_BEFORE),
        ),
        Item(
            *("case-study", "Case study", "figure of Pong", plans.CASE_STUDY, builders.case_study),
            has_picture=True,
        ),
        Item(
            *("ex-ppo", "Mega-reward against Ex-PPO", "figure", plans.AGAINST_SCORE, builders.against_score),
            MADE_BEFORE,
        ),
        Item(
            *("human", "Mega-reward against human players", "figure", plans.AGAINST_HUMANS, builders.against_humans),
            MADE_BEFORE,
        ),
        Item(
            *("pretraining", "Pretraining with mega-reward", "figure", plans.PRETRAINING_PLANS, builders.pretraining),
        ),
        Item("noise", "G-RND and O-RND under different noises", "figure", plans.NOISE, builders.noise),
        Item("masked-rnd", "Masked RND on games of hard exploration", "Table 2", plans.MASKED_RND, builders.masked),
        Item(
            *("grid", "Ablation of the grid size", "supplement, figure", plans.GRID, builders.grid),
            is_audited=True,
        ),
        Item("components", "Ablation of components", "supplement, two figures", plans.COMPONENTS, builders.components),
        Item("running-time", "Running time", "supplement, table", plans.RUNNING_TIME, builders.running_time),
        Item(
            *("failures", "Failure cases", "section of the same name", plans.FAILURES, builders.with_audits),
            is_audited=True,
        ),
    )
}


def find_items(name: str) -> list[Item]:
    """One item, or all if no name is given."""
    if not name:
        return list(ITEMS.values())
    if name not in ITEMS:
        raise UsageError(f"There is no item '{name}'.{suggestion(name, ITEMS)} Items: {', '.join(ITEMS)}.")
    return [ITEMS[name]]
