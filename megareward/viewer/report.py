"""One HTML page about one run, or about several side by side. It opens from disk and needs no network."""

import base64
import html
import os
from collections.abc import Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from megareward.audit.table import SHOWN, way_text
from megareward.errors import UsageError
from megareward.runs.durable import save_file
from megareward.runs.logs import random_score
from megareward.viewer.charts import Line, fitting, line_chart, number, share_bar, spark_chart
from megareward.viewer.markup import code, duration, section, table
from megareward.viewer.runs import Group, Run, differences, group_runs
from megareward.viewer.standings import game_section

PAGE, POSTER, PAGE_OF_TWO = "watch.html", "watch.png", "watch-beside.html"
"""Files that `megareward watch` writes into a run's folder; the last one with --beside."""


def default_place(paths: Sequence[Path]) -> Path:
    """The path of the report: in the run's own folder; for several runs, in the folder that holds them all."""
    if len(paths) == 1:
        return paths[0] / "report.html"
    return Path(os.path.commonpath([path.resolve() for path in paths])) / "report.html"


def write_report(paths: Sequence[Path], out: Path | None = None) -> Path:
    """Write the report. If no score of random play is published (mini games), the one kept beside a run is used."""
    if not paths:
        raise UsageError("Which run? `megareward report RUN...` takes the folders of one run or of several.")
    if len({path.resolve() for path in paths}) < len(paths):
        raise UsageError("A run is named twice; name each once.")
    out, runs = out or default_place(paths), [Run.read(path) for path in paths]
    measured = {run.game: score for run in runs if (score := random_score(run.path)) is not None}
    return save_file(out, report(runs, out.parent, measured).encode())


def report(runs: list[Run], beside: Path, random_scores: dict[str, float]) -> str:
    """The page. Links are relative to the folder `beside`."""
    groups = group_runs(runs)
    games = list(dict.fromkeys(run.game for run in runs))
    methods = ", ".join(dict.fromkeys(group.name for group in groups))
    title = f"{', '.join(games)}: {methods}"
    sections = [
        *(game_section(game, [g for g in groups if g.game == game], random_scores) for game in games),
        _viewers(runs, beside),
        _audits(runs),
        _metrics(groups),
        _time(runs),
        _settings(runs, groups),
    ]
    style = resources.files("megareward.viewer").joinpath("static/report.css").read_text(encoding="utf-8")
    frames = f"{len(runs)} run{'s' if len(runs) > 1 else ''}, {number(sum(run.frames for run in runs))} frames in all"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:"><meta name="color-scheme" content="light dark">'
        f"<title>{html.escape(title)}</title><style>{style}</style></head><body>"
        f'<header><h1>{html.escape(title)}</h1><p class="faint">{frames}</p></header>'
        f"<main>{''.join(sections)}</main></body></html>\n"
    )


def _viewers(runs: list[Run], beside: Path) -> str:
    cards = []
    for run in runs:
        page = run.path / PAGE
        name = html.escape(run.path.name)
        if not page.exists():
            order = code(f"megareward watch {run.path}")
            cards.append(f'<div class="card"><b>{name}</b><span>To see it play: {order}</span></div>')
            continue
        link = html.escape(quote(os.path.relpath(page.resolve(), beside.resolve())))
        poster, image = run.path / POSTER, ""
        if poster.exists():
            data = base64.b64encode(poster.read_bytes()).decode()
            image = f'<img alt="One step of {name}: the frame and its control maps" src="data:image/png;base64,{data}">'
        words = "Watch it play: what it controls, step by step →"
        cards.append(f'<a class="card" href="{link}">{image}<b>{name}</b><span>{words}</span></a>')
    words = "One step of a game: the frame, and laid over it what the agent believes to control."
    return section("Case study", f'<p class="faint">{words}</p><div class="cards">{"".join(cards)}</div>')


ABOUT_AUDITS = (
    "The truth is found by branching the game (megareward audit). AUROC: the chance that a controlled cell has a "
    "higher value than another cell of the same frame; 0.5 is guessing. Movers: cells that changed and that the last "
    "action does not control. Of the way: 0% is what untrained models score, 100% the most that can be seen; rules: "
    "every cell attends to all alike; change: how much a cell changed. In brackets, 95% bootstrap intervals over "
    "episodes."
)


def _audits(runs: list[Run]) -> str:
    """Scores of the learnt maps against the counterfactual truth, where `megareward audit` has written them."""
    audits = [audit for run in runs for audit in run.audits]
    if not audits:
        return ""
    names = [f"{audit['run']}, {audit['policy']} play" for audit in audits]
    every = [audit["scores"] for audit in audits]
    rows = []
    for name, words in SHOWN.items():
        if any(name in scores for scores in every):
            rows.append([words, *(_estimate(scores[name]) if name in scores else "" for scores in every)])
        if any(ways := [way_text(audit, name) for audit in audits]):
            rows.append(["of the way from untrained models", *ways])
    rows += [
        [f"{name}, calibration error", *(f"{scores[f'{name}_calibration']['error']:.3f}" for scores in every)]
        for name in ("direct", "g")
    ]
    lines = []
    for name, scores in zip(names, every, strict=True):
        known = [(n, e) for n, e in enumerate(scores.get("lag_auroc", []), 1) if e["low"] is not None]
        if len(known) > 1:
            columns = [np.array([e[part] for _, e in known]) for part in ("mean", "low", "high")]
            lines.append(Line(name.removesuffix(" play"), np.array([n for n, _ in known], dtype=float), *columns))
    body = table(["learnt map against the truth", *names], rows)
    if lines:
        label = "AUROC of the influence of an action against the steps since it was taken"
        chart = partial(line_chart, lines, label=label, x_name="steps since the action", height=240)
        body += f"<h3>{label}</h3>{fitting(chart)}"
    return section("Audit: are the maps true?", f'{body}<p class="faint">{ABOUT_AUDITS}</p>')


def _estimate(estimate: dict[str, Any]) -> str:
    if estimate["mean"] is None:
        return "no frame can tell"
    interval = "" if estimate["low"] is None else f" ({estimate['low']:.3f} to {estimate['high']:.3f})"
    return f"<b>{estimate['mean']:.3f}</b>{interval}"


def _metrics(groups: list[Group]) -> str:
    """Every metric of the log as a small curve; with several seeds, of the first."""
    firsts = [group.runs[0] for group in groups]
    names = dict.fromkeys(name for run in firsts for row in run.metrics for name in row)
    cards = []
    for name in names:
        if name in ("frames", "score") or name.startswith(("seconds/", "memory/")):
            continue
        lines = []
        for group, run in zip(groups, firsts, strict=True):
            rows = [(row["frames"], row[name]) for row in run.metrics if name in row]
            if rows:
                x, y = np.array(rows[:: max(1, len(rows) // 120)], dtype=float).T
                lines.append((groups.index(group), Line(group.name, x, y)))
        last = ", ".join(number(float(line.y[-1])) for _, line in lines)
        chart = spark_chart(lines, label=f"{name} against frames; last value {last}")
        cards.append(f"<figure><figcaption>{html.escape(name)} <b>{last}</b></figcaption>{chart}</figure>")
    words = (
        "Every number that training logs, from its first frame (left) to its last (right), each on a scale of its own; "
        "beside the name, the last value. Point at a curve for its range. With several methods, one line each, in the "
        "order of the first chart."
    )
    return section("Learning curves", f'<p class="faint">{words}</p><div class="sparks">{"".join(cards)}</div>')


def _time(runs: list[Run]) -> str:
    parts = []
    for run in runs:
        seconds = run.seconds()
        total = sum(seconds.values())
        if not total:
            continue
        device = html.escape(str(run.provenance.get("device", "")))
        speed = f"{number(round(run.frames / total))} frames a second on {device}"
        words = f"{html.escape(run.path.name)}: {duration(total)}, {speed}"
        rows = [[html.escape(name), duration(value), f"{value / total:.1%}"] for name, value in seconds.items()]
        shares, label = list(seconds.items()), f"Where the time of {run.path.name} went"
        bar = fitting(partial(share_bar, shares, label=label))
        details = f"<details><summary>As a table</summary>{table(['part', 'time', 'share'], rows)}</details>"
        parts.append(f"<h3>{words}</h3>{bar}{details}")
    words = '<p class="faint">Where the time of training went; the parts that took most come first.</p>'
    return section("Time", words + "".join(parts)) if parts else ""


def _settings(runs: list[Run], groups: list[Group]) -> str:
    parts = []
    if len(runs) > 1:
        rows = [[code(name), *map(code, values)] for name, values in differences(runs).items()]
        seeds = [code("seed"), *(code(run.config["seed"]) for run in runs)]
        parts.append("<h3>What differs</h3>" + table(["setting", *(run.path.name for run in runs)], [*rows, seeds]))
    for run in (group.runs[0] for group in groups):
        changed = [[code(name), code(mine), code(usual)] for name, (mine, usual) in run.changed().items()]
        if changed:
            parts.append(f"<h3>{html.escape(run.path.name)}: other than usual</h3>")
            parts.append(table(["setting", "here", "usual"], changed))
        everything = [[code(name), code(value)] for name, value in run.settings().items()]
        made = [[code(name), code(value)] for name, value in run.provenance.items()]
        parts.append(
            f"<details><summary>All settings of {html.escape(run.path.name)}, and what it was made with</summary>"
            f"{table(['setting', 'value'], everything + made)}</details>"
        )
    return section("Settings", "".join(parts))
