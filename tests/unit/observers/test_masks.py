"""The observer of motion: it learns from the first frames, is fixed afterwards, and never leaves M-RND blind."""

from dataclasses import replace

import pytest
import safetensors.torch
import torch

from megareward.errors import UsageError
from megareward.observers.masks import MASKS, MaskObserver
from megareward.ppo.config import PolicyConfig
from megareward.rewards.settings import MotionConfig
from megareward.training.clock import Clock
from megareward.training.loop import Trainer
from tests.seams.small_runs import N, T, small
from tests.unit.rewards.recordings import NoWaiting


def observed(**changes: object) -> tuple[Trainer, MaskObserver]:
    trainer = Trainer(small("m-rnd", **changes), torch.device("cpu"))
    trainer.begin()
    observer = trainer.observers["masks"]
    assert isinstance(observer, MaskObserver)
    return trainer, observer


def rollout(trainer: Trainer, observer: MaskObserver) -> dict[str, torch.Tensor]:
    trainer.collector.collect(Clock(), random=True)
    metrics = observer.learn(trainer.rollout)
    trainer.rollout.roll()
    return metrics


def weights(observer: MaskObserver) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in observer.network.parameters()]


def test_it_learns_from_the_first_steps_and_is_fixed_afterwards():
    trainer, observer = observed()
    before = weights(observer)
    assert "masks/loss" in rollout(trainer, observer)
    learnt = weights(observer)
    assert not all(map(torch.equal, before, learnt))
    rollout(trainer, observer)
    assert observer.steps == observer.config.motion_steps == 2 * N * T
    fixed = weights(observer)
    assert "masks/loss" not in rollout(trainer, observer)
    assert all(map(torch.equal, fixed, weights(observer)))


def test_where_the_camera_explains_all_everything_is_shown():
    trainer, observer = observed()
    with torch.no_grad():
        observer.network.heads.masks.bias.fill_(-100.0)
    seen = trainer.collector.seen(trainer.rollout.index(0))
    assert not observer.advance(seen)[MASKS].any()
    assert rollout(trainer, observer)["masks/pixels"] < 2
    assert (observer.advance(seen)[MASKS] == 255).all()


def test_saved_and_loaded_it_shows_the_same():
    trainer, observer = observed()
    rollout(trainer, observer)
    _, other = observed(seed=9)
    other.load_state_dict(safetensors.torch.load(safetensors.torch.save(observer.state_dict())))
    seen = trainer.collector.seen(trainer.rollout.index(0))
    assert torch.equal(observer.advance(seen)[MASKS], other.advance(seen)[MASKS])
    assert other.steps == observer.steps


def test_looking_at_a_frame_never_waits_for_the_device():
    trainer, observer = observed()
    seen = trainer.collector.seen(trainer.rollout.index(0))
    with NoWaiting():
        observer.advance(seen)


def test_the_regulariser_comes_between_two_shares_of_the_training():
    motion = MotionConfig(regularisation=2.0, ramp=(0.2, 0.7))
    assert [motion.weight(done) for done in (0.0, 0.2, 0.45, 0.7, 1.0)] == pytest.approx([0.0, 0.0, 1.0, 2.0, 2.0])


def test_settings_that_make_no_sense_are_refused():
    for wrong in ({"n_masks": 0}, {"channels": 0}, {"regularisation": -1.0}, {"ramp": (0.7, 0.2)}):
        with pytest.raises(UsageError, match="motion"):
            MotionConfig(**wrong)
    with pytest.raises(UsageError, match="motion-steps"):
        replace(small("m-rnd").reward, motion_steps=0)
    with pytest.raises(UsageError, match="compares frames"):
        small("m-rnd", policy=PolicyConfig(stack=1))
