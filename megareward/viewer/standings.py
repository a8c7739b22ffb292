"""The first part of a report: the curves of a game, and its final scores beside published ones."""

import html
from functools import partial

import numpy as np

from megareward.analysis.published import published, published_score
from megareward.statistics.bootstrap import interval
from megareward.statistics.scores import last_mean, last_scores, standard_error
from megareward.viewer.charts import Level, fitting, line_chart, number, standing
from megareward.viewer.markup import section, table
from megareward.viewer.runs import FEWEST, Group, interval_text, score_line


def game_section(game: str, groups: list[Group], random_scores: dict[str, float]) -> str:
    """The curves of one game and its final scores beside published ones."""
    others = _others(game, groups, random_scores)
    lines = [line for line in map(score_line, groups) if line is not None]
    if not any(group.scores for group in groups):
        return section(f"{game}: score", "<p>No game has been finished yet.</p>")
    dots = []
    if len(groups) == 1 and len(groups[0].runs) == 1:
        episodes = groups[0].runs[0].episodes
        dots = [(np.array([e["frames"] for e in episodes], float), np.array([e["score"] for e in episodes], float))]
    levels = [Level(name, score) for name, score in others.items() if name != "PPO (2017)"]
    label = f"Score of {game} against frames of training"
    if not lines:
        return section(f"{game}: score", f"<p>Too few games for a curve.</p>{_finals(groups, others)}")
    chart = fitting(partial(line_chart, lines, levels, dots=dots, label=label))
    bands = dict.fromkeys(f"{group.name}: {interval_text(group)}" for group in groups if group.scores)
    each = "Dots: one game each. " if dots else ""
    level = "Dotted lines: scores of others. " if levels else ""
    words = f"{each}Lines: mean raw score of the last 50 finished games. Bands: {'; '.join(bands)}. {level}"
    return section(f"{game}: score", f'{chart}<p class="faint">{html.escape(words)}</p>{_finals(groups, others)}')


def _columns(groups: list[Group]) -> dict[str, str]:
    """Published columns to compare with, by a short name: the paper's of the same methods and of mega."""
    columns = {"random": "random", "human": "human/mnih2015", "PPO (2017)": "ppo/schulman2017"}
    for method in dict.fromkeys([*(group.runs[0].method for group in groups), "mega"]):
        if f"paper/{method}" in published():
            columns[f"paper's {method}"] = f"paper/{method}"
    return columns


def _others(game: str, groups: list[Group], random_scores: dict[str, float]) -> dict[str, float]:
    """Scores of others on the game, by a short name."""
    found = {name: published_score(column, game) for name, column in _columns(groups).items()}
    if found["random"] is None:
        found["random"] = random_scores.get(game)
    return {name: score for name, score in found.items() if score is not None}


def _finals(groups: list[Group], others: dict[str, float]) -> str:
    head = ["method", "seeds", "frames", "score", "interval", "evaluation", *others]
    rows, ours = [], []
    for group in groups:
        scores = np.array(group.scores)
        if not len(scores):
            continue
        low, high = interval(scores) if len(scores) > 1 else _games_interval(group)
        evaluations = [float(np.mean(run.evaluations[-1]["scores"])) for run in group.runs if run.evaluations]
        rows.append(
            [
                f"<b>{html.escape(group.name)}</b>",
                str(len(scores)),
                number(max(run.frames for run in group.runs)),
                f"<b>{number(float(scores.mean()))}</b>",
                f"{number(float(low))} to {number(float(high))}" if np.isfinite(low) else "too few games",
                number(float(np.mean(evaluations))) if evaluations else "–",
                *(number(score) for score in others.values()),
            ]
        )
        ours.append((group.name, float(scores.mean())))
    label, marks = "Our scores and those of others on one axis", list(others.items())
    picture = fitting(partial(standing, ours, marks, label=label)) if others else ""
    caption = "Score: mean of the last 50 games of training. Evaluation: mean of the games of megareward eval." + (
        " Below, all on one axis: diamonds are these runs, ticks are others." if picture else ""
    )
    return table(head, rows) + f'<p class="faint">{caption}</p>' + picture + _sources(groups, others)


def _games_interval(group: Group) -> tuple[float, float]:
    """For a single seed: 95% interval of the mean over its last games; NaN if there are too few."""
    episodes = next(run.episodes for run in group.runs if run.episodes)
    if len(episodes) < FEWEST:
        return float("nan"), float("nan")
    error = 1.96 * standard_error(last_scores(episodes))
    return last_mean(episodes) - error, last_mean(episodes) + error


def _sources(groups: list[Group], others: dict[str, float]) -> str:
    """Where the others' numbers come from, and after how many frames."""
    words = []
    for name, column in _columns(groups).items():
        if name in others and published_score(column, groups[0].game) is not None:
            trained = published()[column].frames
            after = f", after {number(trained)} frames" if trained else ""
            words.append(f"{name}: {published()[column].source}{after}")
    return f'<p class="faint">{html.escape("; ".join(words))}.</p>' if words else ""
