"""The things detected on the screen of a game: boxes over frames of random play, before anything is learnt."""

from collections.abc import Sequence
from pathlib import Path

import torch

from megareward.analysis.pyplot import pyplot
from megareward.control.config import ControlConfig, ThingsConfig
from megareward.envs.interface import BatchedEnv
from megareward.errors import UsageError
from megareward.things.models import ThingModels
from megareward.training.config import TrainConfig
from megareward.training.parts import make_game
from megareward.types import Int, Tensor, UInt8
from megareward.viewer.drawing import grey
from megareward.viewer.figure import save_figure

N_ENVS = 4


def play_at_random(env: BatchedEnv, steps: int, seed: int) -> UInt8[Tensor, "T N px_h px_w"]:
    draws = torch.Generator().manual_seed(seed)
    frames = [env.reset(seed).frames.clone()]
    for _ in range(steps):
        env.send(torch.randint(env.n_actions, (env.n_envs,), generator=draws))
        frames.append(env.recv().frames.clone())
    return torch.stack(frames)


@torch.no_grad()
def things_of(
    frames: UInt8[Tensor, "T N px_h px_w"], shown: UInt8[Tensor, "M px_h px_w"], things: ThingsConfig
) -> tuple[UInt8[Tensor, "px_h px_w"], Int[Tensor, "M S 6"]]:
    """The background of some frames, and the boxes of the things of those to be shown."""
    models = ThingModels(ControlConfig(things=things), (frames.shape[-2], frames.shape[-1]), n_actions=1)
    models.background.observe(frames.flatten(0, 1))
    return models.background.frame, models.find(shown[None])[0]


def draw_things(
    games: Sequence[str], out: Path, *, columns: int, steps: int, seed: int, things: ThingsConfig
) -> list[Path]:
    """Draw a row for each game: its background, then frames with a box around everything detected as a thing."""
    plt = pyplot()
    from matplotlib.patches import Rectangle

    if columns < 1 or steps < columns:
        raise UsageError(f"--columns {columns} and --steps {steps} show nothing; use 1 or more, and steps for each.")
    figure, axes = plt.subplots(
        len(games), columns + 1, figsize=(1.9 * (columns + 1), 2 * len(games)), squeeze=False, layout="constrained"
    )
    for row, game in zip(axes, games, strict=True):
        env = make_game(TrainConfig("mega", game=game), N_ENVS, torch.device("cpu"))
        try:
            frames = play_at_random(env, steps, seed)
        finally:
            env.close()
        times = torch.linspace(steps / columns, steps, columns).long()
        background, found = things_of(frames, frames[times, 0], things)
        row[0].imshow(grey(background.numpy()), interpolation="nearest")
        row[0].set_ylabel(game)
        for place, t, boxes in zip(row[1:], times.tolist(), found.tolist(), strict=True):
            place.imshow(grey(frames[t, 0].numpy()), interpolation="nearest")
            for top, left, bottom, right, area, _ in boxes:
                if area:
                    size = (right - left + 1, bottom - top + 1)
                    place.add_patch(Rectangle((left - 0.5, top - 0.5), *size, fill=False, color="tab:orange"))
            place.set_title(f"step {t}: {sum(box[4] > 0 for box in boxes)} things", fontsize=8)
        for place in row:
            place.set(xticks=[], yticks=[])
    axes[0, 0].set_title("background", fontsize=8)
    paths = [out.with_suffix(".png"), out.with_suffix(".pdf")]
    save_figure(figure, paths, dpi=110)
    plt.close(figure)
    return paths
