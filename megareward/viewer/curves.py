"""Score against frames for recorded runs, a panel per game, beside published scores. Only records are read, no runs."""

import itertools
from pathlib import Path
from typing import Any

from megareward.analysis.published import published, published_score
from megareward.analysis.pyplot import pyplot
from megareward.envs.games import find_game
from megareward.errors import UsageError
from megareward.quantities import count
from megareward.rewards import METHODS
from megareward.runs.record import Record
from megareward.viewer.figure import save_figure

PALETTE: tuple[tuple[str, Any], ...] = (
    ("#0a7f6e", "-"),
    ("#d98a00", (0, (6, 1))),
    ("#7a4fbf", (0, (4, 1, 1, 1))),
    ("#c4326a", (0, (2, 1))),
    ("#4d7c0f", (0, (1, 1))),
    ("#30475e", "-"),
    ("#8a8f98", "-"),
)
STYLES = dict(zip(METHODS, itertools.cycle(PALETTE), strict=False))
"""Colour and dash by method, in the order of their table."""
LEVELS = {"paper/mega": "mega-reward in the paper", "human/mnih2015": "human", "random": "random play"}


def choose(records: list[Record], games: tuple[str, ...]) -> dict[str, list[Record]]:
    """Records by game: the games asked for, in that order, or all that there are."""
    by_game: dict[str, list[Record]] = {}
    for record in records:
        by_game.setdefault(record.game, []).append(record)
    if not by_game:
        raise UsageError("There is no record with a curve; `megareward results add RUN` makes one.")
    wanted = [find_game(game).name for game in games] or sorted(by_game)
    for game in wanted:
        if game not in by_game:
            raise UsageError(f"No run on {game} is recorded; games with records: {', '.join(sorted(by_game))}.")
    return {game: by_game[game] for game in wanted}


def draw_curves(by_game: dict[str, list[Record]], path: Path) -> list[Path]:
    """The figure as PNG and PDF beside each other; the suffix of `path` is ignored. Returns both paths."""
    plt = pyplot()
    if not path.parent.is_dir():
        raise UsageError(f"The folder of {path} does not exist; create it or choose another place for the picture.")
    columns = min(len(by_game), 2)
    rows = -(-len(by_game) // columns)
    with plt.rc_context({"font.family": "DejaVu Sans", "font.size": 9, "pdf.fonttype": 42}):
        size = (5.6 * columns + 1.0, 3.5 * rows)
        figure, grid = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
        for axes in grid.flat[len(by_game) :]:
            axes.set_visible(False)
        for axes, (game, records) in zip(grid.flat, by_game.items(), strict=False):
            _panel(axes, game, records)
        paths = [path.with_suffix(suffix) for suffix in (".png", ".pdf")]
        save_figure(figure, paths, dpi=130)
        plt.close(figure)
    return paths


def _panel(axes: Any, game: str, records: list[Record]) -> None:
    """One line per run; seeds of one method and length share their label, longer runs are drawn thicker and on top."""
    longest = max(record.frames for record in records)
    labelled = set[str]()
    for record in sorted(
        (one for one in records if one.curve), key=lambda record: (-record.frames, record.method, record.seed)
    ):
        frames, scores = zip(*record.curve, strict=True)
        name = f"{record.label}, {record.length}"
        is_long = record.frames > longest / 2
        colour, dashes = STYLES.get(record.config["method"], ("black", "-"))
        axes.plot(
            [frame / 1e6 for frame in frames],
            scores,
            color=colour,
            linestyle=dashes,
            linewidth=2.0 if is_long else 1.1,
            zorder=3 if is_long else 2,
            label=None if name in labelled else name,
        )
        labelled.add(name)
    low, high = axes.get_ylim()
    for (column, what), dashes in zip(LEVELS.items(), ("--", "-.", ":"), strict=True):
        if (score := published_score(column, game)) is not None:
            trained = published()[column].frames
            name = f"{what}, {count(trained)}: {score:g}" if trained else f"{what}: {score:g}"
            is_near = 2 * low - high <= score <= 2 * high - low  # a distant one would flatten the curves
            axes.axhline(
                score if is_near else low,
                color="0.45",
                linestyle=dashes if is_near else "none",
                linewidth=1,
                label=name if is_near else f"{name} (far off)",
            )
    axes.set(
        xlabel="million frames", ylabel="mean score of the last 50 games", title=find_game(game).title, xlim=(0, None)
    )
    axes.legend(frameon=False, fontsize=7.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.spines[["top", "right"]].set_visible(False)
