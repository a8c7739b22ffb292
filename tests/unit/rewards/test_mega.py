"""Mega-reward reads what the control observer recorded; the equations themselves are tested with the control models."""

from dataclasses import replace

import pytest
import torch

from megareward.rewards import METHODS
from megareward.rewards.mega import Mega
from megareward.rewards.settings import MegaConfig
from tests.unit.rewards.recordings import HW, N, T, assert_computing_changes_nothing, control_fields, noise, world


def grown(growth: torch.Tensor):
    maps = torch.zeros(T + 1, N, HW)
    return replace(noise(), fields=control_fields(maps, maps, growth))


def test_the_reward_is_the_growth_of_control_as_it_was_recorded():
    growth = torch.randn(T, N, generator=torch.Generator().manual_seed(0))
    assert torch.equal(Mega(True).compute(grown(growth)), growth)
    assert_computing_changes_nothing(Mega(True), grown(growth))


def test_frames_and_actions_do_not_enter():
    growth = torch.rand(T, N, generator=torch.Generator().manual_seed(0))
    other = replace(noise(seed=4), fields=grown(growth).fields)
    assert torch.equal(Mega(True).compute(grown(growth)), Mega(True).compute(other))


@pytest.mark.parametrize("end_takes_all", [True, False])
def test_with_the_end_of_an_episode_all_control_is_lost(end_takes_all):
    """Environment 1 dies with the step that leads to frame 2, environment 2 runs out of time there."""
    random = torch.Generator().manual_seed(0)
    growth, g = torch.rand(T, N, generator=random), torch.rand(T + 1, N, HW, generator=random)
    recorded = replace(noise(), fields=control_fields(torch.zeros(T + 1, N, HW), g, growth))
    recorded.terminated[2, 1] = True
    recorded = replace(recorded, truncated=torch.zeros_like(recorded.truncated))
    recorded.truncated[2, 2] = True
    rewards = Mega(end_takes_all).compute(recorded)
    wanted = growth.clone()
    if end_takes_all:
        wanted[1, 1] = -g[1, 1].sum()  # what there was before this step
    torch.testing.assert_close(rewards, wanted)


def test_where_things_carry_control_the_end_takes_what_they_held_however_many_cells_show_them():
    growth, g, held = torch.rand(T, N), torch.rand(T + 1, N, HW), torch.rand(T + 1, N)
    recorded = replace(noise(), fields=control_fields(g, g, growth) | {"held": held})
    recorded.terminated[2, 1] = True
    torch.testing.assert_close(Mega(True).compute(recorded)[1, 1], -held[1, 1])


def test_the_discounted_sum_of_growth_and_loss_is_what_was_controlled_on_the_way():
    """Why the loss belongs to Eq. 11: with it the return is (1 - discount) times the control that each step enjoyed."""
    discount = 0.9
    g = torch.rand(T + 1, N, HW, generator=torch.Generator().manual_seed(1))
    g[0] = 0
    terminated = torch.zeros(T + 1, N, dtype=torch.bool)
    terminated[T] = True
    growth = (g[1:] - g[:-1]).sum(-1)
    recorded = replace(noise(), terminated=terminated, fields=control_fields(g, g, growth))
    rewards, enjoyed = Mega(True).compute(recorded), g[1:T].sum(-1)
    powers = discount ** torch.arange(T)[:, None]
    torch.testing.assert_close((powers * rewards).sum(0), (1 - discount) * (powers[:-1] * enjoyed).sum(0))


def test_without_the_control_observer_there_is_no_mega_reward():
    with pytest.raises(KeyError, match="mega_reward"):
        Mega(True).compute(replace(noise(), fields={}))


def test_mega_needs_the_control_observer_never_the_score_and_follows_the_rule_for_death():
    method = METHODS["mega"]
    assert "control" in method.observers
    assert not method.uses_score
    [(stream, _)] = method.build(MegaConfig(), world())
    assert (stream.name, stream.discount, stream.episodic, stream.normalise) == ("mega", 0.99, True, True)
    [(stream, _)] = method.build(MegaConfig(discount=0.9, episodic="no", normalise=False), world())
    assert (stream.discount, stream.episodic, stream.normalise) == (0.9, False, False)


@pytest.mark.parametrize("rule", [True, False])
@pytest.mark.parametrize("own", ["rule", "yes", "no"])
@pytest.mark.parametrize("takes", [True, False])
def test_the_end_takes_all_only_where_ends_count(rule, own, takes):
    config = MegaConfig(end_takes_all=takes, episodic=own)
    [(stream, reward)] = METHODS["mega"].build(config, replace(world(), episodic=rule))
    ends_count = rule if own == "rule" else own == "yes"
    assert stream.episodic == ends_count
    assert reward.end_takes_all == (takes and ends_count)


@pytest.mark.parametrize("method", ["mega", "mega-direct"])
def test_a_count_bonus_on_g_can_take_the_place_of_growth(method):
    g = torch.rand(T + 1, N, HW, generator=torch.Generator().manual_seed(1))
    recorded = replace(noise(), fields=control_fields(g, g, g[1:].sum(-1)))
    [(stream, counted)] = METHODS[method].build(MegaConfig(bonus="count"), world())
    [(_, ablation)] = METHODS["mega-count"].build(MegaConfig(), world())
    assert stream.name == "mega"
    for _ in range(2):
        assert torch.equal(counted.compute(recorded), ablation.compute(recorded))
        assert counted.update(recorded) == ablation.update(recorded)
    assert (counted.compute(recorded)[recorded.real] < 1).all()  # every pattern has been seen by now
