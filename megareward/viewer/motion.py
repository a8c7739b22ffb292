"""The masks of a motion segmentation over the frames of a run: its objects and their motion."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from megareward.errors import UsageError
from megareward.nets import trunk_units
from megareward.objects.motion import Motion, MotionHeads, MotionSegmentation
from megareward.ppo.agent import PPOAgent
from megareward.runs.folder import RunFolder
from megareward.state import part
from megareward.training.config import TrainConfig, read_config
from megareward.training.evaluate import Player, mismatch_explained, newest_tensors
from megareward.types import Tensor
from megareward.viewer.drawing import grey
from megareward.viewer.figure import save_figure

LEAST_WAY = 0.25
"""Least motion in pixels for which an arrow is drawn."""


def segmentation_of(player: Player, learnt: dict[str, Tensor], config: TrainConfig) -> Callable[[Tensor], Motion]:
    """A function from stacks to motion: the observer of `m-rnd`, or the policy's trunk with the heads of `morel`."""
    shape, motion = player.env.frame_shape, getattr(config.reward, "motion", None)
    if motion is None:
        raise UsageError("The run has no motion segmentation; give one of `morel` or `m-rnd`.")
    sizes = (motion.n_masks, motion.channels, motion.detail)
    with mismatch_explained():
        if "masks" in player.observers:
            network = MotionSegmentation(shape, *sizes)
            network.load_state_dict(part(learnt, "observer.masks.network"))
            return network.to(player.rollout.device)
        agent = player.collector.agent
        assert isinstance(agent, PPOAgent)
        policy = agent.policy
        heads = MotionHeads(shape, trunk_units(shape, config.policy.trunk), *sizes)
        heads.load_state_dict(part(learnt, "auxiliary"))
        heads = heads.to(player.rollout.device)
        return lambda stacks: heads(policy.features(stacks), stacks)


@torch.no_grad()
def draw_masks(
    run: Path, out: Path, *, columns: int, every: int, start: int, seed: int, device: torch.device,
    warn: Callable[[str], None],
) -> list[Path]:  # fmt: skip
    """Draw a row of frames, and under it the same with each object in its own colour and an arrow for its motion."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    if columns < 1 or every < 1 or start < 0:
        raise UsageError(f"--columns {columns}, --every {every} and --start {start} show nothing; use 1, 1, 0 or more.")
    folder = RunFolder.open(run)
    config = read_config(folder, warn)
    learnt, trained = newest_tensors(folder, warn)
    player = Player(config, learnt, 1, seed, device)
    try:
        segment = segmentation_of(player, learnt, config)
        player.begin()
        figure, axes = plt.subplots(2, columns, figsize=(1.5 * columns, 3.4), squeeze=False, layout="constrained")
        for step in range(1, start + columns * every + 1):
            player.step()
            if step > start and (step - start) % every == 0:
                stack = player.rollout.stacks(player.rollout.index(0))
                column = axes[:, (step - start) // every - 1]
                _show(column, stack[0, -1].cpu().numpy(), segment(stack), step)
    finally:
        player.env.close()
    axes[0, 0].set_ylabel("frame")
    axes[1, 0].set_ylabel("what moves")
    figure.suptitle(f"{config.game}: {config.method}, seed {config.seed}, {trained:,} frames of training", fontsize=9)
    paths = [out.with_suffix(".png"), out.with_suffix(".pdf")]
    save_figure(figure, paths, dpi=150)
    plt.close(figure)
    return paths


def _show(column: np.ndarray, frame: np.ndarray, motion: Motion, step: int) -> None:
    import matplotlib

    masks, ways = motion.masks[0].cpu().numpy(), motion.translations[0].cpu().numpy()  # (K, px_h, px_w), (K, 2)
    colours = matplotlib.colormaps["hsv"](np.arange(len(masks)) / len(masks))[:, :3]
    strength = masks * np.minimum(np.abs(ways).sum(1), 1)[:, None, None]
    painted = 0.45 * grey(frame) / 255 + np.einsum("khw,kc->hwc", strength, colours)
    for axes, picture in zip(column, (grey(frame), painted.clip(0, 1)), strict=True):
        axes.imshow(picture, interpolation="nearest")
        axes.set(xticks=[], yticks=[])
    for mask, way, colour in zip(strength, ways, colours, strict=True):
        if mask.max() > 0.5 and np.abs(way).sum() > LEAST_WAY:
            y, x = (np.average(axis, weights=mask) for axis in np.indices(mask.shape))
            end, style = (x + 2 * way[1], y + 2 * way[0]), {"arrowstyle": "->", "color": colour}
            column[1].annotate("", end, (x, y), arrowprops=style)
    column[0].set_title(f"step {step}", fontsize=8)
