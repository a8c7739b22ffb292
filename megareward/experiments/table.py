"""The table of an experiment, from its records: mean over the seeds with a bootstrap interval."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from megareward.audit.table import FEW, share
from megareward.experiments.plans import Cell, Experiment
from megareward.experiments.runner import record_of
from megareward.statistics.aggregates import mean_of_games
from megareward.statistics.bootstrap import interval
from megareward.statistics.scores import rooms_of, standard_error

AUDITED = {
    "direct_auroc": "direct, AUROC",
    "shown_direct_auroc": "direct among what is shown, AUROC",
    "g_auroc": "g, AUROC",
    "g_spearman": "g, rank correlation",
    "movers_auroc": "movers, AUROC",
    "relation_auroc": "where movers came from, AUROC",
}
CONTROLS = {"untrained": "untrained", "uniform": "rules alone", "change": "change", "seen": "at most"}


def scores_of(cells: list[Cell], results: Path) -> dict[tuple[str, str], list[float]]:
    """The recorded scores by row and column."""
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    for cell in cells:
        if (record := record_of(results, cell)) and record.score is not None:
            scores[cell.row, cell.column].append(record.score)
    return dict(scores)


def markdown(experiment: Experiment, cells: list[Cell], results: Path) -> str:
    """The table in Markdown; `-` where no run is recorded. A long table leaves out rows without any recorded run."""
    if experiment.is_audit:
        return audit_markdown(experiment, cells, results)
    scores = scores_of(cells, results)

    def shown(row: str, column: str) -> str:
        found = scores.get((row, column))
        if not found:
            return "-"
        seeds = "" if len(found) == experiment.seeds else f", {count_of_seeds(len(found))}"
        if len(found) == 1:
            return f"{found[0]:.2f}{seeds}"
        low, high = interval(found)
        return f"{np.mean(found):.2f} [{low:.2f}, {high:.2f}]{seeds}"

    columns = list(experiment.columns)
    wanted = {row for row, _ in scores} if experiment.is_long else set(experiment.rows)
    rows = [row for row in experiment.rows if row in wanted]
    lines = [
        f"| {experiment.name} | {' | '.join(columns)} |",
        "|---" * (len(columns) + 1) + "|",
        *(f"| {row} | {' | '.join(shown(row, column) for column in columns)} |" for row in rows),
    ]
    seeds = "one seed, which says nothing about spread"
    if experiment.seeds > 1:
        seeds = f"mean over {experiment.seeds} seeds with 95% bootstrap intervals over the seeds"
    others = [f"{row}: {number}" for row, number in experiment.seeds_of.items() if number != experiment.seeds]
    if others:
        seeds += f" ({'; '.join(others)} seeds)"
    missing = len(experiment.rows) - len(rows)
    note = (
        f"{experiment.question} Mean raw score of the last 50 games after {frames_words(experiment)}, {seeds}. "
        "Every run is a file beside this table." + (f" Rows not begun yet: {missing}." if missing else "")
    )
    games = whole_games_lines(experiment, rows, cells, results)
    games += metrics_lines(experiment, rows, cells, results)
    return "\n".join([*lines, "", note, "", *games, *between_lines(experiment, scores), *experiment.remarks(scores)])


def whole_games_lines(experiment: Experiment, rows: list[str], cells: list[Cell], results: Path) -> list[str]:
    """What the agents score in whole games after training, seed by seed, if any of them was made to play such."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    rooms_note = ""
    for cell in cells if experiment.whole_games else []:
        record = record_of(results, cell)
        played = [own for own in record.evaluations if not own["greedy"]] if record else []
        if not played:
            continue
        scores, cut = played[-1]["scores"], played[-1]["cut"]
        error = f" +- {standard_error(scores):.1f}" if len(scores) > 1 else ""
        text = f"{np.mean(scores):.1f}{error}" + (f" ({cut} cut)" if cut else "")
        if rooms := played[-1].get("rooms"):
            mean, every = rooms_of(rooms)
            text += f", {mean:.1f} rooms ({len(every)} in all)"
            rooms_note = " Rooms: mean number visited in a game, and how many were visited in all games together."
        found[cell.row, cell.column].append(text)
    if not found:
        return []
    return [
        *words_by_place(experiment, f"{experiment.name}, whole games", rows, found),
        "",
        f"{experiment.whole_games} games after training, each of which counts however long it is: mean and standard "
        "error over the games, seed by seed. Cut: games that were stopped at the limit of frames, and count with what "
        "they had." + rooms_note,
        "",
    ]


def words_by_place(
    experiment: Experiment, head: str, rows: list[str], found: Mapping[tuple[str, str], list[str]]
) -> list[str]:
    """A table of words, of which a place may have several."""
    columns = list(experiment.columns)
    return [
        f"| {head} | {' | '.join(columns)} |",
        "|---" * (len(columns) + 1) + "|",
        *(
            f"| {row} | {' | '.join('; '.join(found.get((row, column), ())) or '-' for column in columns)} |"
            for row in rows
        ),
    ]


def metrics_lines(experiment: Experiment, rows: list[str], cells: list[Cell], results: Path) -> list[str]:
    """The metrics that the experiment names, at the beginning, in the middle and at the end: means over the seeds."""
    records = {(cell.row, cell.column, cell.config.seed): record_of(results, cell) for cell in cells}
    lines: list[str] = []
    for name in experiment.metrics:
        curves: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
        for (row, column, _), record in records.items():
            if record and (points := (record.metrics or {}).get(name)):
                curves[row, column].append([points[n][1] for n in (0, (len(points) - 1) // 2, -1)])
        having = [row for row in rows if any(place[0] == row for place in curves)]
        if having:
            found = {place: [" > ".join(f"{y:.3g}" for y in np.mean(own, axis=0))] for place, own in curves.items()}
            lines += [*words_by_place(experiment, f"{experiment.name}, {name}", having, found), ""]
    if lines:
        lines += ["At the beginning, in the middle and at the end of training, means over the seeds.", ""]
    return lines


def between_lines(experiment: Experiment, scores: Mapping[tuple[str, str], list[float]]) -> list[str]:
    """A table of scores rescaled so that two rows are 0 and 1, with the mean over the columns and its interval; only
    rows that have all columns."""
    rows = experiment.normalised(scores)
    if experiment.between is None or not rows:
        return []

    def shown(row: str) -> str:
        games = rows[row]
        mean, low, high = mean_of_games(games)
        fewest = min(len(seeds) for seeds in games.values())
        seeds = "" if fewest >= experiment.seeds else f", {count_of_seeds(fewest)} or more"
        interval_of_mean = f" [{low:.2f}, {high:.2f}]" if fewest > 1 else ""
        cells = [f"{np.mean(own):.2f}" for own in games.values()] + [f"{mean:.2f}{interval_of_mean}{seeds}"]
        return f"| {row} | {' | '.join(cells)} |"

    first, last = experiment.between
    return [
        f"| {experiment.name}, {first} is 0 and {last} is 1 | {' | '.join(experiment.columns)} | mean |",
        "|---" * (len(experiment.columns) + 2) + "|",
        *(shown(row) for row in rows if row not in experiment.between),
        "",
        "Means over the seeds, and over the games with 95% bootstrap intervals; seeds are drawn within each game. No "
        "interval where a game has one seed.",
        "",
    ]


def frames_words(experiment: Experiment) -> str:
    """The length of the runs in words, with the rows that have another length."""
    firsts = {row: experiment.cells_of(row, next(iter(experiment.columns)))[0] for row in experiment.rows}
    others = [
        f"{row}: {cell.config.frames:,}" for row, cell in firsts.items() if cell.config.frames != experiment.frames
    ]
    return f"{experiment.frames:,} frames" + (f" ({'; '.join(others)})" if others else "")


def count_of_seeds(number: int) -> str:
    return "1 seed" if number == 1 else f"{number} seeds"


Audits = dict[tuple[str, str], list[dict[str, Any]]]
"""Results of audits by row and column, one per seed."""


def audits_of(cells: list[Cell], results: Path) -> Audits:
    found: Audits = defaultdict(list)
    for cell in cells:
        record = record_of(results, cell)
        if record and record.audit:
            found[cell.row, cell.column].append(record.audit)
    return found


def audit_markdown(experiment: Experiment, cells: list[Cell], results: Path) -> str:
    """The table of an audit: how true the maps are, with the controls of the first row. Scores that no record has are
    left out."""
    found = audits_of(cells, results)
    if experiment.tuned_on:
        first_seeds = {place: audits[0] for place, audits in found.items()}
        return games_markdown(experiment, first_seeds)
    first, columns = next(iter(experiment.rows)), list(experiment.columns)

    def shown(of_seeds: list[dict[str, Any]], score: str) -> str:
        """Mean and interval: over seeds if there are several, else over episodes."""
        known = [scores[score] for scores in of_seeds if scores.get(score, {"mean": None})["mean"] is not None]
        if not known:
            return "-"
        low, high = known[0]["low"], known[0]["high"]
        if len(known) > 1:
            low, high = interval([one["mean"] for one in known])
        text = f"{np.mean([one['mean'] for one in known]):.3f}"
        seeds = "" if len(known) == experiment.seeds else f", {count_of_seeds(len(known))}"
        return text + ("" if low is None else f" [{low:.3f}, {high:.3f}]") + seeds

    lines = [f"| {experiment.name} | | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    for score, name in AUDITED.items():
        if not any(score in audit["scores"] for audits in found.values() for audit in audits):
            continue
        for row in experiment.rows:
            audits = [[audit["scores"] for audit in found.get((row, column), [])] for column in columns]
            lines.append(f"| {name} | {row} | {' | '.join(shown(scores, score) for scores in audits)} |")
        for control, words in CONTROLS.items():
            rows = [[a.get("controls", {}).get(control, {}) for a in found.get((first, c), [])] for c in columns]
            if any(map(any, rows)):
                lines.append(f"| {name} | {words} | {' | '.join(shown(scores, score) for scores in rows)} |")
    frames, over = cells[0].config.frames, "over episodes"
    if experiment.seeds > 1:
        over = "over the seeds, where there is only one over episodes"
    note = (
        f"{experiment.question} Control models after {frames:,} frames of random play, "
        f"{'one seed' if experiment.seeds == 1 else f'{experiment.seeds} seeds'}, audited on random play: means over "
        f"frames with 95% bootstrap intervals {over}. Every run is a file beside this table."
    )
    return "\n".join([*lines, "", note, ""])


def games_markdown(experiment: Experiment, found: dict[tuple[str, str], dict[str, Any]]) -> str:
    """One table per score, one line per game: games that settings were chosen on, the others, the mean of each. Rows
    without a single run are named below."""
    groups = {
        "tuned on": [name for name in experiment.columns if name in experiment.tuned_on],
        "not tuned on": [name for name in experiment.columns if name not in experiment.tuned_on],
    }
    begun = {row for row, _ in found}
    rows, missing = ([row for row in experiment.rows if (row in begun) is is_begun] for is_begun in (True, False))
    first, lines = next(iter(experiment.rows)), []
    for score, name in AUDITED.items():
        heads = [*rows, *(f"*{words}*" for words in CONTROLS.values())]
        lines += [f"| {experiment.name}: {name} | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
        for kind, games in groups.items():
            columns = [[found.get((row, game), {}) for game in games] for row in rows]
            values = [[mean_of(audit.get("scores"), score) for audit in audits] for audits in columns]
            ways = [[share(audit, score) for audit in audits] for audits in columns]
            for control in CONTROLS:
                audits = [found.get((first, game), {}).get("controls", {}).get(control) for game in games]
                values.append([mean_of(scores, score) for scores in audits])
                ways.append([None] * len(games))
            for n, game in enumerate(games):
                texts = [with_way(own[n], way[n]) for own, way in zip(values, ways, strict=True)]
                lines.append(f"| {game} | {' | '.join(texts)} |")
            texts = [mean_text(own) for own in values]
            lines.append(f"| **mean, {kind}** | {' | '.join(texts)} |")
        lines.append("")
    note = (
        f"{experiment.question} Control models after {frames_words(experiment)} of random play, one seed, audited on "
        "random play. In brackets, how far a row is on the way from its own untrained models to the most that can be "
        f"seen. In italics, the controls of {first}; untrained is there the mean of four mirror images. Means are over "
        "games, with 95% bootstrap intervals over them. "
        f"`-`: no record, or fewer than {FEW} frames can tell. Every run is a file beside this table."
    )
    note += f" Not begun yet: {', '.join(missing)}." if missing else ""
    return "\n".join([*lines, note, ""])


def mean_of(scores: dict[str, Any] | None, score: str) -> float | None:
    """The mean of a score; None if too few frames define it."""
    found = (scores or {}).get(score, {"frames": 0})
    return found["mean"] if found["frames"] >= FEW else None


def with_way(value: float | None, way: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" + ("" if way is None else f" ({way:.0%})")


def mean_text(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    text = f"{np.mean(known):.3f}"
    if len(known) > 1:
        low, high = interval(known)
        text += f" [{low:.3f}, {high:.3f}]"
    return f"{text} of {len(known)}" if len(known) < len(values) else text
