"""MOREL's masks on a mini game: they cover the sprites that move and ignore those that stand."""

from dataclasses import replace

import pytest
import torch

from megareward.observers.masks import MASKS, MaskObserver
from megareward.rewards.rnd import LEAST_MOTION
from megareward.training.clock import Clock
from megareward.training.config import TrainConfig
from megareward.training.loop import Trainer
from megareward.training.presets import with_preset


def random_play(game: str, **options: object) -> tuple[Trainer, MaskObserver]:
    config = with_preset(TrainConfig(method="m-rnd", game=game), "mini")
    config = replace(config, env=replace(config.env, **options))
    trainer = Trainer(config, torch.device("cpu"))
    trainer.begin()
    observer = trainer.observers["masks"]
    assert isinstance(observer, MaskObserver)
    return trainer, observer


def learn(trainer: Trainer, observer: MaskObserver) -> None:
    while observer.steps < observer.config.motion_steps:
        trainer.collector.collect(Clock(), random=True)
        observer.learn(trainer.rollout)
        trainer.rollout.roll()


def watch(trainer: Trainer) -> dict[str, float]:
    """In one rollout: IoU of the mask with the pixels where a sprite that moved is or was; shares of sprites seen."""
    shape, now = trainer.env.frame_shape, trainer.env.object_masks()
    sums = dict.fromkeys(("both", "either", "moving", "moving_seen", "standing", "standing_seen"), 0)
    for t in range(trainer.rollout.T):
        before = now
        step = trainer.collector.step(t, Clock())
        now, mask = trainer.env.object_masks(), trainer.rollout.fields[MASKS][t + 1].view(-1, *shape) >= LEAST_MOTION
        real = ~step.first[:, None, None]
        moved, moving, standing = (torch.zeros_like(mask) for _ in range(3))
        for name, pixels in now.items():
            moves = (pixels != before[name]).flatten(1).any(1)[:, None, None] & (name != "bricks")  # these only vanish
            moved |= (pixels | before[name]) & moves & real
            moving |= pixels & moves & real
            standing |= pixels & ~moves & real
        standing &= ~moved
        for name, pixels in {
            "both": mask & moved,
            "either": (mask & real) | moved,
            "moving": moving,
            "moving_seen": moving & mask,
            "standing": standing,
            "standing_seen": standing & mask,
        }.items():
            sums[name] += int(pixels.sum())
    trainer.rollout.roll()
    return {
        "iou": sums["both"] / sums["either"],
        "moving": sums["moving_seen"] / sums["moving"],
        "standing": sums["standing_seen"] / sums["standing"],
    }


@pytest.mark.learning
def test_masks_cover_what_moves_and_ignore_what_stands():
    trainer, observer = random_play("mini-breakout")
    untrained = watch(trainer)
    learn(trainer, observer)
    trained = watch(trainer)
    assert untrained["iou"] < 0.1
    assert trained["iou"] >= 0.5
    assert trained["moving"] >= 0.5
    assert trained["standing"] <= 0.05
