"""`make play`: train on a mini game, compare with random play, leave a report. About two minutes on two cores."""

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from megareward.analysis.report import describe_run, draw_curve, draw_strip
from megareward.training.config import TrainConfig, with_preset
from megareward.training.evaluate import film, newest_tensors, play
from megareward.training.run import pick_device, start
from megareward.training.run_folder import free_name
from megareward.viewer.command import write_watch
from megareward.viewer.recording import record_run
from megareward.viewer.report import write_report

GAME = "mini-pong"
FRAMES = 200_000
EPISODES = 50


def main() -> int:
    begun = time.monotonic()
    config = with_preset(TrainConfig(method="extrinsic", game=GAME, frames=FRAMES), "auto")
    device = pick_device("auto")
    random_score = float(np.mean(play(replace(config, method="random", reward=None), None, EPISODES, device=device)))
    print(
        f"Random play on {GAME} scores {random_score:.2f}. Training an agent; Ctrl-C stops and saves.", file=sys.stderr
    )
    folder = start(config, free_name(Path("runs") / "play"))
    learnt = newest_tensors(folder, print)[0]
    draw_curve(folder.path, folder.path / "curve.png", random_score)
    draw_strip(film(config, learnt, device=device), folder.path / "play.png")
    print(describe_run(folder.path, random_score))
    write_watch(record_run(folder.path, 300, device=device), folder.path)
    page = write_report([folder.path], random_scores={GAME: random_score})
    print(
        f"Pictures: {folder.path / 'curve.png'}, {folder.path / 'play.png'}. It took {time.monotonic() - begun:.0f} s."
    )
    print(f"The report, for any browser: {page.resolve().as_uri()}")
    return 0
