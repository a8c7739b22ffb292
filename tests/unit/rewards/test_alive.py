"""Survival only: -1 at every end that counts, and nothing else."""

from dataclasses import replace

import pytest
import torch

from megareward.rewards import METHODS
from megareward.rewards.settings import AliveConfig
from tests.unit.rewards.recordings import noise, world


def with_ends():
    recorded = noise()
    terminated = torch.zeros_like(recorded.terminated)
    terminated[2, 0] = terminated[3, 2] = True
    return replace(recorded, terminated=terminated)


def built(rule: bool):
    [(stream, reward)] = METHODS["alive"].build(AliveConfig(), replace(world(), episodic=rule))
    assert stream.episodic == rule
    return reward


def test_every_end_costs_one_and_nothing_else_pays():
    recorded = with_ends()
    assert torch.equal(built(rule=True).compute(recorded), -recorded.terminated[1:].float())
    never = replace(recorded, terminated=torch.zeros_like(recorded.terminated))
    assert not built(rule=True).compute(never).any()


def test_a_time_limit_is_no_death():
    recorded = with_ends()
    cut = replace(recorded, truncated=recorded.terminated, terminated=torch.zeros_like(recorded.terminated))
    assert not built(rule=True).compute(cut).any()


def test_where_nothing_ends_there_is_nothing_to_survive():
    assert not built(rule=False).compute(with_ends()).any()


@pytest.mark.parametrize("scale", [0.0, 7.0])
def test_it_sees_neither_the_score_nor_the_frames(scale):
    recorded = with_ends()
    other = replace(recorded, frames=(recorded.frames.float() * scale).to(torch.uint8))
    assert torch.equal(built(rule=True).compute(recorded), built(rule=True).compute(other))
    assert not METHODS["alive"].uses_score
