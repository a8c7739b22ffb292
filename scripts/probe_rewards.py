"""Which reward made of control maps pays the good player most? The cheapest experiment there is: four plays a game.

    python scripts/probe_rewards.py                       # half an hour on two cores
    python scripts/probe_rewards.py --games mini-pong     # only this game; what is there already is not made again
    python scripts/probe_rewards.py --taught --jobs 2     # beside them agents that were trained on these rewards
    python scripts/probe_rewards.py --table               # the table of what is recorded

In every mini game PPO is trained on the score, which makes the good player, and mega-reward, whose models make the
learnt maps. Then `megareward probe` asks what every form of Eq. 10 and 11 pays the good player, a random one, an idle
one and the worst, on true, learnt and untrained maps. The records lie in results/probe/, one for each game and kind of
maps; the table compares them with what agents reached who were trained on these rewards (`megareward experiment
causes`).

`--taught`: is it the reward or the learning that keeps agents from playing well? Agents are trained on rewards made of
true maps and play beside the four. One that is paid less than the good player has not learnt its reward well; one that
is paid more and scores less was taught something else than play.
"""

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from megareward.audit.scores import spearman
from megareward.envs.mini import MINI_GAMES
from megareward.experiments.plans import CAUSES
from megareward.experiments.plans.causes import WHOSE_MAPS
from megareward.experiments.table import scores_of
from megareward.training.run import create

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "probe"
MAPS = tuple(WHOSE_MAPS)
LAGS = CAUSES.cells_of("difference, true maps", next(iter(MINI_GAMES)))[0].config.control.oracle.lags
"""The maps of `experiment causes`, with which the table compares."""
CHARGED = ("as printed", "difference", "positive", "record", "spread")
"""Forms that pay for growth lose all of g at an end; those that pay for a level have nothing to give back."""
SURE = 2.0
"""Standard errors by which the good player must be ahead of everybody else."""

TAUGHT = ("as printed", "difference", "spread", "beyond", "moved")
"""Rewards on which agents are trained to play beside the four."""

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


def taught_path(game: str, results: Path = RESULTS) -> Path:
    return results / f"{game}-taught.json"


def agent_of(form: str, game: str, seed: int) -> str:
    return f"{game}-{form}-s{seed}".replace(" ", "-")


def make_taught(games: list[str], runs: Path, seeds: int, jobs: int) -> None:
    """Train an agent for each game, reward and seed, as `experiment causes` does on true maps, and probe them."""
    cells = {
        agent_of(form, game, seed): CAUSES.cells_of(f"{form}, true maps", game)[seed]
        for seed in range(seeds)
        for game in games
        for form in TAUGHT
        if not taught_path(game).exists()
    }

    def train(name: str) -> None:
        folder = runs / name
        if not folder.exists():
            create(replace(cells[name].config, device="cpu"), folder)
        megareward("resume", str(folder), "--device", "cpu", "--no-tensorboard", "--quiet")

    with ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(train, name) for name in cells]:
            done.result()
    for game in games:
        if taught_path(game).exists():
            continue
        agents = [str(runs / agent_of(form, game, seed)) for form in TAUGHT for seed in range(seeds)]
        maps = ["--maps", str(runs / f"{game}-mega-s0"), "--oracle", str(LAGS)]
        out = ["--json", str(taught_path(game)), "--device", "cpu", "--n-envs", "64", "--steps", "450"]
        megareward("probe", str(runs / f"{game}-extrinsic-s0"), "--beside", *agents, *maps, *out)


def taught_table(results: Path = RESULTS) -> str:
    """By game and reward: what an agent trained on it is paid, as a share of what it pays the good player, and the
    points of both."""
    found = {game: json.loads(path.read_text()) for game in MINI_GAMES if (path := taught_path(game, results)).exists()}
    lines = [f"| paid to its own agent, as a share of the good player's pay | {' | '.join(found)} |"]
    lines += ["|---" * (len(found) + 1) + "|"]
    for form in TAUGHT:
        texts = []
        for game, one in found.items():
            agents = [name for name in one["score"] if name.startswith(agent_of(form, game, 0).removesuffix("0"))]
            paid = one["returns"][row_of(form)]
            (good, good_error), own = paid["good"], [paid[name] for name in agents]
            mean = float(np.mean([value for value, _ in own]))
            error = max(float(np.hypot(good_error, np.mean([error for _, error in own]))), 1e-9)
            verdict = "even" if abs(mean - good) < SURE * error else "more" if mean > good else "less"
            points = [one["score"][name] for name in agents]
            texts.append(f"{mean / good:.2f}, {verdict} ({np.mean(points):.2g} of {one['score']['good']:.2g})")
        lines.append(f"| {form} | {' | '.join(texts)} |")
    note = (
        "True maps; the mean over the agents of all seeds. *more*, *less*: by more than "
        f"{SURE:g} standard errors of the games. In brackets: points in 1000 steps of the agent and of the good player."
    )
    return "\n".join([*lines, "", note, ""])


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
    parser.add_argument("--taught", action="store_true", help="train agents on the rewards, and probe them, too")
    parser.add_argument("--seeds", type=int, default=1, help="of these agents")
    parser.add_argument("--jobs", type=int, default=1, help="agents trained at a time")
    args = parser.parse_args()
    if not args.table:
        make(args.games, args.runs, args.frames)
        if args.taught:
            make_taught(args.games, args.runs, args.seeds, args.jobs)
    for text, name in ((table(), "table.md"), (taught_table(), "taught.md")):
        (RESULTS / name).write_text(text)
        print(text)


if __name__ == "__main__":
    main()
