"""The results of a run, in a few lines and one picture."""

from pathlib import Path
from typing import Any

from megareward.analysis.published import published_score
from megareward.analysis.pyplot import pyplot
from megareward.runs.logs import RunLogs, random_score
from megareward.statistics.scores import curve, last_mean, last_scores


def describe_run(path: Path) -> str:
    """The last score beside random play, as published or as kept beside the run, and where everything is."""
    logs = RunLogs.read(path)
    if not logs.metrics or not logs.episodes:
        return f"{path}: no game finished yet."
    random = random_score(path)
    if random is None:
        random = published_score("random", logs.game)
    beside = "" if random is None else f"; random play: {random:.4g}"
    games = f"the last {len(last_scores(logs.episodes))} games"
    files = "checkpoints and TensorBoard files" if (path / "tensorboard").exists() else "and checkpoints"
    return (
        f"{logs.game}, {logs.label}: score {last_mean(logs.episodes):.4g} over {games}{beside}.\n"
        f"{path} holds the settings, scores, metrics, {files} of the run."
    )


def draw_curve(path: Path, picture: Path) -> None:
    """Score against frames: every game as a dot, the mean of the last 50 as a line; random play, if it is known."""
    plt = pyplot()
    logs = RunLogs.read(path)
    if not logs.episodes:
        return
    frames: Any = [e["frames"] for e in logs.episodes]
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    axes.plot(frames, [e["score"] for e in logs.episodes], ".", color="0.75", markersize=3, label="one game")
    axes.plot(*zip(*curve(logs.episodes), strict=True), color="tab:blue", label="mean of the last 50")
    if (random := random_score(path)) is not None:
        axes.axhline(random, color="tab:red", linestyle="--", linewidth=1, label="random play")
    axes.set(xlabel="frames", ylabel="score", title=f"{logs.game}, {logs.label}, seed {logs.config['seed']}")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
