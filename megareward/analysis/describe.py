"""What a run achieved, in a few lines and one picture."""

from pathlib import Path
from typing import Any

import numpy as np

from megareward.analysis.published import published_score
from megareward.analysis.results import curve, shown_method
from megareward.runs.folder import RunFolder
from megareward.training.config import RECENT


def describe_run(path: Path, random_score: float | None = None) -> str:
    """The last score beside random play, and where everything is. `random_score` stands in where none is published."""
    folder = RunFolder.open(path)
    config = folder.record()["config"]
    scores = [e["score"] for e in folder.rows("scores.jsonl")]
    metrics = folder.rows("metrics.jsonl")
    if not metrics or not scores:
        return f"{path}: no game finished yet."
    last = scores[-RECENT:]
    if random_score is None:
        random_score = published_score("random", config["game"])
    beside = "" if random_score is None else f"; random play: {random_score:.4g}"
    what = f"{config['game']}, {shown_method(config)}"
    return (
        f"{what}: score {np.mean(last):.4g} over the last {len(last)} games{beside}.\n"
        f"{path} holds the settings, scores, metrics, checkpoints and TensorBoard files of the run."
    )


def draw_curve(path: Path, picture: Path, random_score: float | None = None) -> None:
    """Score against frames: every game as a dot, the mean of the last 50 as a line."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder = RunFolder.open(path)
    config = folder.record()["config"]
    episodes = folder.rows("scores.jsonl")
    if not episodes:
        return
    frames: Any = [e["frames"] for e in episodes]
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    axes.plot(frames, [e["score"] for e in episodes], ".", color="0.75", markersize=3, label="one game")
    axes.plot(*zip(*curve(episodes), strict=True), color="tab:blue", label="mean of the last 50")
    if random_score is not None:
        axes.axhline(random_score, color="tab:red", linestyle="--", linewidth=1, label="random play")
    axes.set(xlabel="frames", ylabel="score", title=f"{config['game']}, {shown_method(config)}, seed {config['seed']}")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
