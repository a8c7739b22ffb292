"""Mega-reward reads what the tracker recorded; the equations themselves are tested with the control models."""

from dataclasses import replace

import pytest
import torch

from megareward.rewards import METHODS
from megareward.rewards.contract import ControlRecord
from megareward.rewards.mega import Mega
from megareward.rewards.settings import MegaConfig
from tests.unit.rewards.recordings import HW, N, T, assert_computing_changes_nothing, noise, world


def grown(growth: torch.Tensor):
    maps = torch.zeros(T + 1, N, HW)
    return replace(noise(), control=ControlRecord(maps, maps, growth))


def test_the_reward_is_the_growth_of_control_as_it_was_recorded():
    growth = torch.randn(T, N, generator=torch.Generator().manual_seed(0))
    assert torch.equal(Mega().compute(grown(growth)), growth)
    assert_computing_changes_nothing(Mega(), grown(growth))


def test_frames_and_actions_do_not_enter():
    growth = torch.rand(T, N, generator=torch.Generator().manual_seed(0))
    other = replace(noise(seed=4), control=grown(growth).control)
    assert torch.equal(Mega().compute(grown(growth)), Mega().compute(other))


def test_without_the_tracker_there_is_no_mega_reward():
    with pytest.raises(AssertionError, match="tracker"):
        Mega().compute(replace(noise(), control=None))


def test_mega_needs_control_never_the_score_and_is_episodic():
    method = METHODS["mega"]
    assert method.needs_control
    assert not method.uses_score
    [(stream, _, normalise)] = method.build(MegaConfig(), world())
    assert (stream.name, stream.discount, stream.episodic, normalise) == ("mega", 0.99, True, True)
    [(stream, _, normalise)] = method.build(MegaConfig(discount=0.9, episodic=False, normalise=False), world())
    assert (stream.discount, stream.episodic, normalise) == (0.9, False, False)
