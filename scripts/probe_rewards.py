"""Which reward made of control maps pays the good player most? The cheapest experiment there is: four plays a game.

    python scripts/probe_rewards.py                       # half an hour on two cores
    python scripts/probe_rewards.py --games mini-pong     # only this game; what is there already is not made again
    python scripts/probe_rewards.py --table               # the table of what is recorded

In every mini game PPO is trained on the score, which makes the good player, and mega-reward, whose models make the
learnt maps. Then `megareward probe` asks what every form of Eq. 10 and 11 pays the good player, a random one, an idle
one and the worst, on true, learnt and untrained maps. The records lie in results/probe/, one for each game and kind of
maps; the table compares them with what agents reached who were trained on these rewards (`megareward experiment
causes`).
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from megareward.audit.scores import spearman
from megareward.envs.mini import MINI_GAMES
from megareward.experiments.plans import CAUSES
from megareward.experiments.plans.causes import WHOSE_MAPS
from megareward.experiments.table import scores_of

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "probe"
MAPS = tuple(WHOSE_MAPS)
LAGS = CAUSES.cells_of("difference, true maps", next(iter(MINI_GAMES)))[0].config.control.oracle.lags
"""The maps of `experiment causes`, with which the table compares."""
CHARGED = ("as printed", "difference", "positive", "record", "spread")
"""Forms that pay for growth lose all of g at an end; those that pay for a level have nothing to give back."""
SURE = 2.0
"""Standard errors by which the good player must be ahead of everybody else."""

Result = dict[str, Any]


def megareward(*words: str) -> None:
    print("megareward", *words, flush=True)
    if status := subprocess.run([sys.executable, "-m", "megareward.cli", *words]).returncode:
        sys.exit(f"megareward {' '.join(words)} ended with {status}.")


def record_path(game: str, maps: str, results: Path = RESULTS) -> Path:
    return results / f"{game}-{maps.replace(' ', '-')}.json"


def make(games: list[str], runs: Path, frames: str) -> None:
    for game in games:
        if all(record_path(game, maps).exists() for maps in MAPS):
            continue
        folders = {method: runs / f"{game}-{method}-s0" for method in ("extrinsic", "mega")}
        for method, folder in folders.items():
            begin = ["train", method, "--game", game, "--frames", frames, "--out", str(folder)]
            words = ["resume", str(folder)] if folder.exists() else begin
            megareward(*words, "--device", "cpu", "--no-tensorboard")
        given = {
            "true maps": ["--maps", str(folders["mega"]), "--oracle", str(LAGS)],
            "learnt maps": ["--maps", str(folders["mega"])],
            "untrained maps": [],
        }
        for maps, words in given.items():
            if not record_path(game, maps).exists():
                size = ["--n-envs", "64", "--steps", "450"]
                out = ["--json", str(record_path(game, maps)), "--device", "cpu"]
                megareward("probe", str(folders["extrinsic"]), *words, *size, *out)


def lead(by_player: dict[str, list[float]]) -> tuple[float, float]:
    """How far the good player is ahead of the best paid of the others: as a share of the larger pay, and in standard
    errors."""
    good, others = by_player["good"], [value for name, value in by_player.items() if name != "good"]
    rival = max(others)
    gap = good[0] - rival[0]
    return gap / max(abs(good[0]), abs(rival[0]), 1e-9), gap / max((good[1] ** 2 + rival[1] ** 2) ** 0.5, 1e-9)


def row_of(form: str) -> str:
    return f"{form}, charge" if form in CHARGED else form


def table(results: Path = RESULTS, trained: Path = ROOT / "results" / "experiments" / "causes") -> str:
    found: dict[tuple[str, str], Result] = {}
    for maps in MAPS:
        for game in MINI_GAMES:
            if (path := record_path(game, maps, results)).exists():
                found[game, maps] = json.loads(path.read_text())
    games = [game for game in MINI_GAMES if all((game, maps) in found for maps in MAPS)]
    forms = [form for form in next(iter(found.values()))["returns"] if not form.endswith(", charge")]
    lines = [f"| the good player is paid most | {' | '.join(MAPS)} |", "|---" * (len(MAPS) + 1) + "|"]
    for form in forms:
        texts = []
        for maps in MAPS:
            leads = [lead(found[game, maps]["returns"][row_of(form)]) for game in games]
            sure = sum(errors > SURE for _, errors in leads)
            texts.append(f"{sure} of {len(games)} ({np.mean([share for share, _ in leads]):+.2f})")
        lines.append(f"| {form} | {' | '.join(texts)} |")
    scores = CAUSES.normalised(scores_of(CAUSES.cells(), trained))
    pairs = [
        (lead(found[game, maps]["returns"][row_of(form)])[0], np.mean(scores[f"{form}, {maps}"][game]))
        for form in forms
        for maps in MAPS
        for game in games
        if f"{form}, {maps}" in scores
    ]
    one = next(iter(found.values()))
    note = (
        f"{one['n_envs']} games of each of four players. How many of {len(games)} mini games pay the good one most by "
        f"more than {SURE:g} standard errors, and in brackets by what share of the larger pay it is ahead of the next "
        "one, on average."
    )
    lines += ["", note]
    if len(pairs) > 2:
        left, right = (torch.tensor([[pair[i] for pair in pairs]], dtype=torch.float64) for i in (0, 1))
        lines += [
            f"Rank correlation of that share with the score that agents reached who were trained on this reward, over "
            f"{len(pairs)} rewards, maps and games: {float(spearman(left, right)):.2f}."
        ]
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", choices=MINI_GAMES, default=list(MINI_GAMES))
    parser.add_argument("--frames", default="150k", help="of training the good player and the models")
    parser.add_argument("--runs", type=Path, default=Path("runs/probe"), help="where these live")
    parser.add_argument("--table", action="store_true", help="make nothing")
    args = parser.parse_args()
    if not args.table:
        make(args.games, args.runs, args.frames)
    text = table()
    (RESULTS / "table.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
