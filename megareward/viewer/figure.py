"""The paper's case study: consecutive frames of a game, what is under control in them, and the reward for it."""

import io
from pathlib import Path
from typing import Any

import numpy as np

from megareward.analysis.pyplot import pyplot
from megareward.errors import UsageError
from megareward.runs.durable import save_file
from megareward.viewer.drawing import RAMPS, ceiling, maps_of, picture
from megareward.viewer.recording import Recording

LABELS = {
    "frame": "frame",
    "direct": "direct\ncontrol",
    "g": "accumulated\ncontrol g",
    "true_direct": "true direct\ncontrol",
    "true_g": "true g",
}
ORDER = ("frame", "direct", "true_direct", "g", "true_g")


def best_moment(recording: Recording, columns: int, every: int = 1) -> int:
    """First step of the stretch inside one game with the most mega-reward, not counting a game's opening.

    When a game begins, everything is new and gives reward; a case study should show control gained in play.
    """
    if recording.learnt is None:
        raise UsageError(
            f"The run was trained with '{recording.method}' and has no control maps; give one of mega or dir, or any "
            "method trained with --g-channel yes."
        )
    length, T = (columns - 1) * every + 1, len(recording)
    if length > T:
        raise UsageError(f"{columns} frames, {every} steps apart, need {length} steps; only {T} were recorded.")
    earned = np.concatenate([[0.0], np.cumsum(recording.learnt.mega_reward, dtype=np.float64)])
    games = np.cumsum(recording.first)
    age = np.arange(T) - np.maximum.accumulate(np.where(recording.first, np.arange(T), 0))
    starts = np.arange(T - length + 1)
    total = earned[starts + length] - earned[starts]
    whole = games[starts] == games[starts + length - 1]
    for fine in (whole & (age[starts] >= 60), whole, np.ones_like(whole)):
        if fine.any():
            return int(starts[fine][np.argmax(total[fine])])
    raise AssertionError("every start is fine in the end")


def case_study(
    recording: Recording, path: Path, *, columns: int = 11, every: int = 1, start: int | None = None
) -> list[Path]:
    """Draw the figure as PNG and PDF beside each other; the suffix of `path` is ignored. Returns both paths."""
    plt = pyplot()
    from matplotlib.gridspec import GridSpec

    if columns < 2 or every < 1:
        raise UsageError(f"--columns is {columns} and --every is {every}; at least 2 and 1 are needed.")
    found = best_moment(recording, columns, every)  # refuses what cannot be drawn, also where a start is given
    start = found if start is None else start
    if not 0 <= start <= len(recording) - (columns - 1) * every - 1:
        raise UsageError(f"--start is {start}; {columns} frames from there do not fit into {len(recording)} steps.")
    shown = start + every * np.arange(columns)
    maps = maps_of(recording)
    rows = [name for name in ORDER if name == "frame" or name in maps]
    px_h, px_w = recording.frames.shape[1:]
    with plt.rc_context({"font.family": "DejaVu Sans", "font.size": 8, "pdf.fonttype": 42}):
        side = 11.5 * 0.883 / (columns + 0.09 + columns * 0.06)  # inches of one frame
        pictures, below = 1.08 * side * px_h / px_w * len(rows), 0.8 * side
        height = 0.62 + pictures + below + 0.06
        figure = plt.figure(figsize=(11.5, height))
        ratios = [px_h / px_w] * len(rows) + [0.8]
        grid = GridSpec(
            len(rows) + 1,
            columns + 1,
            figure,
            width_ratios=[1] * columns + [0.09],
            height_ratios=ratios,
            wspace=0.06,
            hspace=0.08,
            left=0.082,
            right=0.965,
            top=1 - 0.62 / height,
            bottom=0.06 / height,
        )
        for i, name in enumerate(rows):
            for j, t in enumerate(shown):
                axes = figure.add_subplot(grid[i, j])
                _show(axes, recording, maps, name, int(t))
                if j == 0:
                    axes.set_ylabel(LABELS[name], rotation=0, ha="right", va="center", labelpad=8)
                if i == 0:
                    axes.set_title(_heading(recording, int(t), int(t) - start), fontsize=8, pad=4)
            if name != "frame":
                _scale(figure.add_subplot(grid[i, columns]), recording, name)
        _rewards(figure.add_subplot(grid[-1, :columns]), recording, shown, every)
        begun = f"steps {shown[0]} to {shown[-1]}" + (f", every {every}" if every > 1 else "")
        trained = f"{recording.method}, seed {recording.seed}, {recording.frames_trained:,} frames of training"
        figure.suptitle(f"{recording.game}: {trained}; {begun}", fontsize=9, x=0.082, ha="left", y=1 - 0.1 / height)
        paths = [path.with_suffix(".png"), path.with_suffix(".pdf")]
        save_figure(figure, paths, dpi=200)
        plt.close(figure)
    return paths


def save_figure(figure: Any, paths: list[Path], dpi: int) -> None:
    """Save a figure; it is drawn in memory first, so that no partial file is left."""
    for path in paths:
        drawn = io.BytesIO()
        figure.savefig(drawn, dpi=dpi, format=path.suffix[1:])
        save_file(path, drawn.getvalue())


def _show(axes: Any, recording: Recording, maps: dict[str, np.ndarray], name: str, t: int) -> None:
    axes.imshow(picture(recording, maps, name, t), interpolation="nearest", aspect="equal")
    axes.set(xticks=[], yticks=[])
    px_h, px_w = recording.frames.shape[1:]
    for spine in axes.spines.values():
        spine.set_visible(False)
    if name == "frame":
        return
    for w in range(1, recording.W):
        axes.axvline(w * px_w / recording.W - 0.5, color="white", alpha=0.18, linewidth=0.4)
    for h in range(1, recording.H):
        axes.axhline(h * px_h / recording.H - 0.5, color="white", alpha=0.18, linewidth=0.4)


def _heading(recording: Recording, t: int, later: int) -> str:
    action = "" if recording.first[t] else recording.action_names[recording.actions[t]].lower()
    return f"$t+{later}$\n{action}" if later else f"$t$\n{action}"


def _scale(axes: Any, recording: Recording, name: str) -> None:
    """Draw the colour ramp with the values of its ends."""
    source = recording.truth if name.startswith("true_") else recording.learnt
    top = ceiling(getattr(source, name.removeprefix("true_")))
    axes.imshow(RAMPS[name.removeprefix("true_")][::-1, None], aspect="auto", extent=(0, 1, 0, top))
    axes.set(xticks=[], yticks=[0, top])
    axes.yaxis.tick_right()
    axes.tick_params(length=0, pad=2, labelsize=7)
    for text, side in zip(axes.set_yticklabels(["0", f"{top:.3g}"]), ("bottom", "top"), strict=True):
        text.set_verticalalignment(side)  # inside, so that two ramps do not meet


def _rewards(axes: Any, recording: Recording, shown: np.ndarray, every: int) -> None:
    """One bar under each frame: the mega-reward since the frame before it. Points of the game are marked."""
    assert recording.learnt is not None
    since = [slice(max(t - every + 1, 0), t + 1) for t in shown]
    earned = [float(recording.learnt.mega_reward[s].sum()) for s in since]
    points = [0.0 if recording.points is None else float(recording.points[s].sum()) for s in since]
    place = np.arange(len(shown))
    axes.bar(place, earned, width=0.62, color="#0a7884")
    axes.axhline(0, color="0.4", linewidth=0.6)
    span = max(*np.abs(earned), 1e-6)
    for x, value, gained in zip(place, earned, points, strict=True):
        axes.text(x, value + 0.04 * span, f"{value:.2f}", ha="center", va="bottom", fontsize=7)
        if gained:
            axes.text(x, value + 0.27 * span, f"score {gained:+g}", ha="center", va="bottom", fontsize=7, weight="bold")
    axes.set(xlim=(-0.5, len(shown) - 0.5), xticks=[], ylim=(min(0, *earned) - 0.06 * span, max(earned) + 0.6 * span))
    axes.set_ylabel("mega-\nreward", rotation=0, ha="right", va="center", labelpad=8)
    axes.set_yticks([])
    axes.spines[["top", "right", "bottom", "left"]].set_visible(False)
