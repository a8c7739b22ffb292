"""Interquartile mean, performance profiles and probability of improvement, by the definitions of Agarwal et al."""

import numpy as np
import pytest

from megareward.statistics.aggregates import (
    improvement_interval,
    interquartile_mean,
    mean_of_games,
    performance_profile,
    pooled,
    probability_of_improvement,
    stratified_interval,
)


def test_the_interquartile_mean_is_that_of_the_middle_half():
    assert interquartile_mean([100.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -50.0]) == pytest.approx((2 + 3 + 4 + 5) / 4)
    assert interquartile_mean([1.0, 2.0, 9.0]) == 4  # a quarter of three, rounded down, is none
    assert interquartile_mean([[1.0, 2.0, 3.0, 90.0], [0.0, 0.0, 4.0, 4.0]]) == pytest.approx([2.5, 2.0])


def test_seeds_are_drawn_within_their_game():
    """Games differ by 100, seeds by 1: were games drawn too, the interval would be as wide as games are apart."""
    scores = {"low": [0.0, 1.0, 0.0, 1.0], "high": [100.0, 101.0, 100.0, 101.0]}
    low, high = stratified_interval(scores, lambda runs: runs.mean(axis=-1))
    assert 50 <= low < 50.5 < high <= 51


def test_the_interval_of_many_seeds_is_that_of_a_normal_mean():
    seeds = np.random.default_rng(0).normal(10, 2, 400).tolist()
    low, high = stratified_interval({"one": seeds[:200], "two": seeds[200:]}, lambda runs: runs.mean(axis=-1))
    assert high - low == pytest.approx(2 * 1.96 * 2 / np.sqrt(400), rel=0.15)


def test_one_seed_everywhere_leaves_nothing_to_draw():
    assert stratified_interval({"a": [1.0], "b": [4.0]}, lambda runs: runs.mean(axis=-1)) == (2.5, 2.5)


def test_games_count_alike_however_many_seeds_they_have():
    mean, low, high = mean_of_games({"one": [0.0, 0.0, 0.0, 0.0], "other": [1.0, 3.0]})
    assert mean == 1
    assert (low, high) == (0.5, 1.5)  # half of what the other game's mean can be


def test_a_profile_counts_the_runs_above_each_threshold():
    profile = performance_profile([0.0, 0.5, 1.0, 2.0], [-1.0, 0.5, 0.75, 2.0])
    assert profile.tolist() == [1.0, 0.5, 0.5, 0.0]
    bands = performance_profile([[0.0, 1.0], [1.0, 1.0]], [0.5])  # every draw has a profile of its own
    assert bands.tolist() == [[0.5], [1.0]]
    assert pooled({"a": [1.0], "b": [2.0, 3.0]}).tolist() == [1.0, 2.0, 3.0]


def test_the_probability_of_improvement_is_the_share_of_pairs_won_game_by_game():
    """On a: 3 > 1, 3 > 2, 2 > 1, 2 = 2, so 3.5 of 4. On b: none of 2. Only we have c."""
    ours = {"a": [3.0, 2.0], "b": [0.0], "c": [9.0]}
    theirs = {"a": [1.0, 2.0], "b": [5.0, 6.0]}
    assert probability_of_improvement(ours, theirs) == pytest.approx((3.5 / 4 + 0) / 2)
    assert probability_of_improvement(theirs, ours) == pytest.approx(1 - (3.5 / 4 + 0) / 2)
    low, high = improvement_interval(ours, theirs)
    assert 0.25 <= low < probability_of_improvement(ours, theirs) < high <= 0.5
