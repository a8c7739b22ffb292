"""How each item of the paper is drawn from the records: a builder turns one experiment into blocks of a page."""

from collections.abc import Callable
from functools import partial

import numpy as np

from megareward.analysis.published import HOURS_FOR_80M, published, published_score
from megareward.analysis.relative import improvement, relative_ablation, relative_score
from megareward.paper.blocks import Block, Figure, Number, Picture, Table, Text
from megareward.paper.recorded import Ours
from megareward.paper.view import View
from megareward.statistics import aggregates
from megareward.viewer.bars import Bar, bar_chart
from megareward.viewer.charts import Line, line_chart

TITLES = {
    "emp": "Emp",
    "curiosity": "Cur",
    "rnd": "RND",
    "sto": "Sto",
    "div": "Div",
    "dir": "Dir",
    "mega": "Meg",
    "extrinsic": "Ex-PPO",
    "count": "Count",
}
"""The paper's names of the methods."""


def titled(row: str) -> str:
    return TITLES.get(row, row)


def scores(view: View, source: str = "paper", first: str = "game") -> list[Block]:
    """One line per game, one column per method, the paper's score below ours. `source`: of the published scores."""
    lines: list[list[str | Number]] = [
        [column, *(view.number(row, column, f"{source}/{row}") for row in view.rows)] for column in view.columns
    ]
    return [Table([first, *map(titled, view.rows)], lines)]


def play(view: View) -> list[Block]:
    return [*scores(view), *aggregated(view)]


# All games in one number ---------------------------------------------------------------------------------------------


def aggregated(view: View) -> list[Block]:
    """As Agarwal et al. (2021) recommend: interquartile means, performance profiles and probabilities of improvement,
    of runs as they were planned, on the scale from random play (0) to Ex-PPO (1)."""
    found = normalised(view)
    if "mega" not in found or len(found) < 2:
        return [Text("Too few runs of this budget are recorded for aggregates over the games.")]
    games = len(next(iter(found.values())))
    over = f"{games} games with runs of all of these methods"
    bars = []
    for row, own in found.items():
        value = float(aggregates.interquartile_mean(aggregates.pooled(own)))
        low, high = aggregates.stratified_interval(own) if has_seeds(own) else (None, None)
        bars.append((titled(row), [Bar(value, low, high)]))
    means = bar_chart(["interquartile mean"], bars, label="Interquartile means", unit="", level=1.0, linear=True)
    thresholds = np.linspace(0.0, 1.5, 61)
    lines = []
    for row, own in found.items():
        profile = aggregates.performance_profile(aggregates.pooled(own), thresholds)
        profiles = partial(aggregates.performance_profile, thresholds=thresholds)
        band = aggregates.stratified_interval(own, profiles) if has_seeds(own) else (None, None)
        lines.append(Line(titled(row), thresholds, profile, *band))
    profile_chart = line_chart(lines, label="Performance profiles", x_name="normalised score τ", height=360)
    wins = []
    for row, own in found.items():
        if row != "mega":
            likely = 100 * aggregates.probability_of_improvement(found["mega"], own)
            low, high = (100 * end for end in aggregates.improvement_interval(found["mega"], own))
            wins.append((titled(row), [Bar(likely, low, high) if has_seeds(own) else Bar(likely)]))
    chart = bar_chart(["P(Meg > other)"], wins, label="Probability of improvement", level=50.0, linear=True)
    return [
        Figure(
            f"{view.name}-iqm", f"Interquartile mean, 0 random play, 1 Ex-PPO; {over}. 95% stratified bootstrap.", means
        ),
        Figure(f"{view.name}-profiles", f"Share of runs above a normalised score; {over}.", profile_chart),
        Figure(
            f"{view.name}-improvement", f"How likely a run of Meg scores above one of another method; {over}.", chart
        ),
    ]


def has_seeds(own: aggregates.Scores) -> bool:
    return all(len(seeds) > 1 for seeds in own.values())


def normalised(view: View) -> dict[str, dict[str, list[float]]]:
    """By method and game, for methods with planned runs on every game that any two of them share with Ex-PPO."""
    cells: dict[str, dict[str, list[float]]] = {}
    for row in view.rows:
        cells[row] = {}
        for column in view.columns:
            own, best, chance = view.ours(row, column), view.ours("extrinsic", column), view.random(column)
            if (
                not own
                or not best
                or chance is None
                or {"b", "s"} & {*view.marks(own, column), *view.marks(best, column)}
            ):
                continue
            shares = [relative_score(score, best.mean, chance) for score in own.scores]
            cells[row][column] = [share / 100 for share in shares if share is not None]
    begun = {row: own for row, own in cells.items() if own}
    games = [column for column in view.columns if all(begun[row].get(column) for row in begun)]
    return {row: {game: own[game] for game in games} for row, own in begun.items()} if games else {}


# Relative scores -----------------------------------------------------------------------------------------------------


def against_score(view: View) -> list[Block]:
    """Eq. 12 against Ex-PPO, and the paper's mega-reward against the published PPO."""
    groups = []
    for column in view.columns:
        mega, best, chance = view.ours("mega", column), view.ours("extrinsic", column), view.random(column)
        bar = None
        if best and chance is not None:
            bar = view.bar(mega, column, partial(relative_score, benchmark=best.mean, random=chance), best)
        groups.append((column, [bar, theirs(view, column, "ppo/schulman2017")]))
    series = ["ours: mega-reward against our Ex-PPO", "paper's mega-reward against PPO of Schulman et al. 2017"]
    return relative_figure(view, series, groups, "Mega-reward against Ex-PPO, Eq. 12: 0% is random play, 100% Ex-PPO.")


HUMANS = ("human/mnih2015", "human/wang2016")


def against_humans(view: View) -> list[Block]:
    """Eq. 12 against both published tables of human players, which differ."""
    if not any(published_score(table, view.game(column)) for table in HUMANS for column in view.columns):
        return [Text("Nobody has published scores of human players on these games.")]
    groups = []
    for column in view.columns:
        mega, chance, bars = view.ours("mega", column), view.random(column), []
        for table in HUMANS:
            human = published_score(table, view.game(column))
            known = human is not None and chance is not None
            equation: Callable[[float], float | None] = partial(
                relative_score, benchmark=human or 0, random=chance or 0
            )
            bars += [view.bar(mega, column, equation) if known else None, theirs(view, column, table)]
        groups.append((column, bars))
    series = [f"{who} against {table}" for table in HUMANS for who in ("ours", "the paper's")]
    sources = ". ".join(f"{table}: {published()[table].source}" for table in HUMANS)
    figure = relative_figure(
        view, series, groups, "Mega-reward against human players, Eq. 12: 100% is the human player."
    )
    return [*figure, Text(f"{sources}.")]


def theirs(view: View, column: str, benchmark: str) -> Bar | None:
    """The paper's mega-reward on the same scale, by published scores alone."""
    names = ("paper/mega", benchmark, "random")
    score, other, chance = (published_score(name, view.game(column)) for name in names)
    if score is None or other is None or chance is None:
        return None
    value = relative_score(score, other, chance)
    return None if value is None else Bar(value)


NO_FIGURE = "Missing: no run is recorded for the figure."


def relative_figure(
    view: View, series: list[str], groups: list[tuple[str, list[Bar | str | None]]], caption: str
) -> list[Block]:
    """Methods that the paper has on none of the games are left out; results that we lack are shown as missing."""
    if not any(bar for _, bars in groups for bar in bars):
        return [Text(NO_FIGURE)]
    shown = [i for i, name in enumerate(series) if "paper" not in name or any(bars[i] for _, bars in groups)]
    kept = [(name, [bars[i] for i in shown]) for name, bars in groups]
    chart = bar_chart([series[i] for i in shown], kept, label=caption, level=100.0)
    return [Figure(view.name, caption, chart)]


def pretraining(view: View) -> list[Block]:
    """Eq. 13: every row that is neither random play nor training from scratch was pretrained in some way."""
    ways = [row for row in view.rows if row not in ("random", "scratch")]
    groups = []
    for column in view.columns:
        scratch, chance = view.ours("scratch", column), view.random(column)
        bars: list[Bar | str | None] = [None] * len(ways)
        if scratch and chance is not None:
            equation = partial(improvement, scratch=scratch.mean, random=chance)
            bars = [view.bar(view.ours(row, column), column, equation, scratch) for row in ways]
        groups.append((column, bars))
    caption = "Improvement by pretraining, Eq. 13: 100% is training from scratch."
    return [*scores(view), *relative_figure(view, ways, groups, caption)]


# Ablations -----------------------------------------------------------------------------------------------------------

PAPER_OVERALL = {"without latent control": 100 - 34.82, "count bonus on g": 100 - 55.48}
"""Relative ablation scores over all games, from the text of the extended paper."""


def components(view: View) -> list[Block]:
    ablations = [row for row in view.rows if row in PAPER_OVERALL]
    groups: list[tuple[str, list[Bar | str | None]]] = []
    for column in view.columns:
        whole, chance = view.ours("mega", column), view.random(column)
        bars: list[Bar | str | None] = [None] * len(ablations)
        if whole and chance is not None:
            equation = partial(relative_ablation, original=whole.mean, random=chance)
            bars = [view.bar(view.ours(row, column), column, equation, whole) for row in ablations]
        groups.append((column, bars))
    own = [[bars[i] for _, bars in groups] for i in range(len(ablations))]
    known = [[bar.value for bar in bars if isinstance(bar, Bar)] for bars in own]
    groups.append(("mean of games", [Bar(float(np.mean(values))) if values else None for values in known]))
    groups.append(("paper, overall", [Bar(PAPER_OVERALL[row]) for row in ablations]))
    caption = "Relative ablation scores, Eq. 14: 0% is random play, 100% the whole of mega-reward."
    return [*scores(view), *relative_figure(view, ablations, groups, caption)]


def audited(own: Ours, score: str) -> list[float]:
    means = [audit["scores"].get(score, {}).get("mean") for audit in own.audits]
    return [mean for mean in means if mean is not None]


def speeds(own: Ours) -> list[float]:
    """Training speed of each seed, in frames per second."""
    return [one.record.frames / one.record.seconds for one in own.found if one.record.seconds]


AUDITED = {"direct_auroc": "direct control, AUROC", "g_auroc": "g, AUROC"}


def with_audits(view: View) -> list[Block]:
    """A line per row and column: the score, how true the maps are, and how fast it was trained."""
    lines: list[list[str | Number]] = []
    for column in view.columns:
        for row in view.rows:
            own = view.ours(row, column)
            audits = [view.shown(own, column, partial(audited, score=score), digits=".3f") for score in AUDITED]
            lines.append(
                [column, row, view.number(row, column), *audits, view.shown(own, column, speeds, digits=",.0f")]
            )
    return [Table(["game", "", "score", *AUDITED.values(), "frames a second"], lines)]


def grid(view: View) -> list[Block]:
    [column] = view.columns
    groups = [(row, [view.bar(view.ours(row, column), column, lambda score: score)]) for row in view.rows]
    if not any(bar for _, [bar] in groups):
        return [*with_audits(view), Text(NO_FIGURE)]
    chart = bar_chart([f"score on {column}"], groups, label="Score by grid", unit="", linear=True)
    return [*with_audits(view), Figure(view.name, f"Score on {column} by the size of the grid.", chart)]


# The others ----------------------------------------------------------------------------------------------------------


def noise(view: View) -> list[Block]:
    """Score against the degree of noise, which each column is named after."""
    lines = []
    for row in view.rows:
        points = [(float(column.split()[-1]), own.mean) for column in view.columns if (own := view.ours(row, column))]
        if len(points) > 1:
            x, y = np.array(points).T
            lines.append(Line(row, x, y))
    caption = f"Score on {view.game(view.columns[0])} against the degree of noise."
    if not lines:
        return [*scores(view, first=""), Text(NO_FIGURE)]
    chart = line_chart(lines, label=caption, x_name="standard deviation of the noise", height=280)
    return [*scores(view, first=""), Figure(view.name, caption, chart)]


def masked(view: View) -> list[Block]:
    return scores(view, "paper-noise")


def running_time(view: View) -> list[Block]:
    """Hours for the paper's 80M frames, at the speed of the recorded run."""
    column = view.columns[0]
    lines: list[list[str | Number]] = []
    for row in view.rows:
        own = view.ours(row, column)
        device = str(own.found[0].record.provenance.get("device", "")) if own and speeds(own) else ""
        beside = f"paper {HOURS_FOR_80M[row]:g}"
        hours = view.shown(own, column, lambda own: [80e6 / speed / 3600 for speed in speeds(own)], beside, ".3g")
        lines.append([titled(row), hours, view.shown(own, column, speeds, digits=",.0f"), device])
    words = "Hours for 80M frames at the recorded speed; several runs may have shared the machine."
    return [Table(["method", f"hours on {column}", "frames a second", "device"], lines), Text(words)]


def case_study(view: View) -> list[Block]:
    """The picture beside a record of the run, whichever table that was made for."""
    for cell in view.experiment.cells():
        for found in view.recorded.find(cell):
            if (drawn := found.path.with_suffix(".png")).exists():
                caption = f"{cell.name}: frames, direct control, accumulated control g and mega-reward."
                return [Picture(view.name, caption, drawn.read_bytes())]
    return [Text("Missing: no picture is recorded.")]
