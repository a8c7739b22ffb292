"""`megareward play`, which is `make play`: an agent that never sees the score learns a mini game by seeking control.

A few minutes on two cores.
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from megareward.cli.parsing import load_torch, parse
from megareward.errors import warn
from megareward.progress import Bar
from megareward.training.config import TrainConfig
from megareward.training.presets import with_preset

GAME = "mini-pong"
FRAMES = 150_000
EPISODES = 50


@dataclass(frozen=True)
class PlayArgs:
    """Train on a mini game by mega-reward, compare with random play, draw pictures: a few minutes on two cores."""


def command(words: list[str]) -> int:
    parse(PlayArgs, words, "play")
    begun = time.monotonic()
    load_torch()
    import numpy as np

    from megareward.analysis.describe import describe_run, draw_curve
    from megareward.analysis.pyplot import pyplot
    from megareward.runs.logs import save_random_score
    from megareward.training.evaluate import play
    from megareward.training.run import pick_device, start
    from megareward.viewer.figure import case_study
    from megareward.viewer.recording import record_run
    from megareward.viewer.report import write_report
    from megareward.viewer.watch import write_watch

    pyplot()
    config = with_preset(TrainConfig(method="mega", game=GAME, frames=FRAMES), "auto")
    device = pick_device("auto")
    random_play = replace(config, method="random", reward=None)
    games = play(random_play, None, EPISODES, device=device, progress=Bar("games of random play"))
    random_score = float(np.mean([game.score for game in games]))
    warn(
        f"Random play on {GAME} scores {random_score:.2f}. Training an agent by mega-reward, the score hidden from it; "
        "Ctrl-C stops and saves."
    )
    run = start(config, Path("runs") / "play", numbered=True).path
    save_random_score(run, random_score, EPISODES)
    draw_curve(run, run / "curve.png")
    recording = record_run(run, 300, device=device, progress=Bar("steps played"))
    case_study(recording, run / "control.png")
    write_watch(recording, run)
    page = write_report([run])
    print(describe_run(run))
    print(
        f"Pictures: {run / 'curve.png'} and, of what it controls, {run / 'control.png'}. "
        f"It took {time.monotonic() - begun:.0f} s."
    )
    print(f"The report, for any browser: {page.resolve().as_uri()}")
    return 0
