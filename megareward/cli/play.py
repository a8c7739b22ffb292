"""`make play`: an agent that never sees the score learns a mini game by seeking control. A few minutes on two cores."""

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from megareward.analysis.describe import describe_run, draw_curve
from megareward.runs.folder import free_name
from megareward.training.config import TrainConfig, with_preset
from megareward.training.evaluate import play
from megareward.training.run import pick_device, start
from megareward.viewer.command import write_watch
from megareward.viewer.figure import case_study
from megareward.viewer.recording import record_run
from megareward.viewer.report import write_report

GAME = "mini-pong"
FRAMES = 150_000
EPISODES = 50


def main() -> int:
    begun = time.monotonic()
    config = with_preset(TrainConfig(method="mega", game=GAME, frames=FRAMES), "auto")
    device = pick_device("auto")
    games = play(replace(config, method="random", reward=None), None, EPISODES, device=device)
    random_score = float(np.mean([game.score for game in games]))
    print(
        f"Random play on {GAME} scores {random_score:.2f}. Training an agent by mega-reward, the score hidden from it; "
        "Ctrl-C stops and saves.",
        file=sys.stderr,
    )
    folder = start(config, free_name(Path("runs") / "play"))
    draw_curve(folder.path, folder.path / "curve.png", random_score)
    recording = record_run(folder.path, 300, device=device)
    case_study(recording, folder.path / "control.png")
    write_watch(recording, folder.path)
    page = write_report([folder.path], random_scores={GAME: random_score})
    print(describe_run(folder.path, random_score))
    print(
        f"Pictures: {folder.path / 'curve.png'} and, of what it controls, {folder.path / 'control.png'}. "
        f"It took {time.monotonic() - begun:.0f} s."
    )
    print(f"The report, for any browser: {page.resolve().as_uri()}")
    return 0
