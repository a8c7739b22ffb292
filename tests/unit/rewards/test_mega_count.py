"""A count bonus on g: the same pattern of levels pays 1 / sqrt(visits), whatever its scale; resets are not visits."""

from dataclasses import replace

import torch

from megareward.rewards import METHODS
from megareward.rewards.mega_count import LEVELS, CountedMaps
from megareward.rewards.settings import MegaConfig
from tests.unit.rewards.recordings import noise, world

HW = 16


def showing(maps: torch.Tensor):
    """A recording whose control maps are these (T+1, N, HW)."""
    return replace(noise(), fields={"g": maps})


def constant(pattern: torch.Tensor):
    T1, N = noise().first.shape
    return showing(pattern.expand(T1, N, HW))


def test_a_new_pattern_pays_one_and_wears_off_with_the_root_of_its_visits():
    [(stream, reward)] = METHODS["mega-count"].build(MegaConfig(), world())
    assert (stream.name, stream.normalise) == ("mega-count", True)
    recorded = constant(torch.linspace(0, 1, HW))
    assert torch.equal(reward.compute(recorded), torch.ones_like(reward.compute(recorded)))
    visits = 0
    for _ in range(3):
        reward.update(recorded)
        visits += int(recorded.real.sum())  # a reset visits nothing
        expected = torch.full_like(reward.compute(recorded), (visits + 1) ** -0.5)
        torch.testing.assert_close(reward.compute(recorded), expected)


def test_only_the_pattern_counts_not_its_height():
    reward = CountedMaps(world())
    pattern = torch.linspace(0, 1, HW)
    reward.update(constant(pattern))
    assert (reward.compute(constant(0.25 * pattern + 0.5)) < 0.5).all()
    assert torch.equal(reward.compute(constant(pattern.flip(0))), torch.ones(noise().actions.shape))


def test_patterns_are_told_apart_cell_by_cell():
    """All patterns of four cells in the corner of a map that is else at its ends."""
    reward = CountedMaps(world())
    levels = torch.cartesian_prod(*[torch.arange(LEVELS)] * 4)  # (256, 4)
    maps = torch.zeros(len(levels), 1, HW)
    maps[:, 0, :4] = (levels + 0.5) / LEVELS
    maps[:, 0, -1] = 1.0
    assert len(reward.buckets(maps).unique()) == len(levels)


def test_the_counts_are_saved():
    one, two = CountedMaps(world()), CountedMaps(world())
    recorded = constant(torch.linspace(0, 1, HW))
    one.update(recorded)
    two.load_state_dict(one.state_dict())
    assert torch.equal(one.compute(recorded), two.compute(recorded))
