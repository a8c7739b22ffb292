"""When the control models learn, and with which weights frames are judged meanwhile."""

import pytest
import torch

from megareward.control.learning import schedule as module
from megareward.control.learning.schedule import Schedule
from megareward.cuda.streams import CudaStreams
from tests.unit.control.small_models import changed, copy, learner, models, rollout

NO_STREAMS = CudaStreams(torch.device("cpu"), enabled=False)


def schedule(overlaps: bool = True, seed: int = 0) -> Schedule:
    return Schedule(learner(seed=seed), models(seed=seed) if overlaps else None, NO_STREAMS)


@pytest.fixture(params=["thread", "gaps"])
def cores(request, monkeypatch):
    """Updates run in a thread of their own, or in the gaps of the caller's work."""
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2 if request.param == "thread" else 1)
    return request.param


def test_without_a_lagged_copy_a_rollout_is_learnt_at_once():
    at_once, plain = schedule(overlaps=False), learner()
    metrics, expected = at_once.begin(*rollout(0)), plain.update(*rollout(0))
    assert not at_once.threaded
    assert not changed(at_once.state_dict(), plain.state_dict())
    assert {name: value.item() for name, value in metrics.items()} == expected


def test_the_lagged_copy_is_one_rollout_behind_and_the_learner_learns_the_same_as_without_it(cores):
    overlapping, plain = schedule(), learner()
    assert overlapping.threaded == (cores == "thread")
    metrics_before: dict[str, float] = {}
    for number in range(3):
        judging = copy(plain.models.modules.state_dict())  # has learnt from all rollouts but this one
        metrics = overlapping.begin(*rollout(number))
        assert not changed(judging, overlapping.lagged.modules.state_dict())
        assert {name: value.item() for name, value in metrics.items()} == metrics_before  # of the rollout before
        for steps_left in (3, 2, 1):
            overlapping.work(steps_left)
            assert not changed(judging, overlapping.lagged.modules.state_dict())
        metrics_before = plain.update(*rollout(number))
    overlapping.finish()
    assert not changed(plain.state_dict(), overlapping.state_dict())


def test_a_resumed_schedule_equals_the_uninterrupted_one_bit_for_bit(cores):
    through, resumed = schedule(), schedule(seed=9)
    for number in range(2):
        through.begin(*rollout(number))
    through.finish()
    saved = copy(through.state_dict())
    resumed.load_state_dict(saved)
    for own in (through, resumed):
        own.begin(*rollout(2))
        own.finish()
    after, of_resumed = through.state_dict(), resumed.state_dict()
    assert after.keys() == of_resumed.keys()
    assert not changed(after, of_resumed)


def test_from_a_state_without_a_lagged_copy_it_knows_what_the_learner_knows():
    alone, overlapping = schedule(overlaps=False), schedule(seed=9)
    alone.begin(*rollout(0))
    overlapping.load_state_dict(copy(alone.state_dict()))
    assert not changed(alone.learner.models.modules.state_dict(), overlapping.lagged.modules.state_dict())
    assert torch.equal(alone.learner.models.background.frame, overlapping.lagged.background.frame)
