"""The interval of a mean over seeds."""

import numpy as np
import pytest

from megareward.statistics.bootstrap import interval


def test_the_interval_of_equal_scores_is_a_point():
    assert interval([2.5, 2.5, 2.5]) == (2.5, 2.5)


@pytest.mark.parametrize("scores", [[3.0], [3.0, 1.0], [3.0, 1.0, 8.0]])
def test_up_to_three_seeds_give_the_worst_and_the_best(scores):
    assert interval(scores) == pytest.approx((min(scores), max(scores)))


def test_many_seeds_give_the_interval_of_a_normal_mean():
    low, high = interval(np.random.default_rng(0).normal(10, 2, 100))
    assert high - low == pytest.approx(2 * 1.96 * 2 / np.sqrt(100), rel=0.15)


def test_every_point_of_a_curve_has_the_interval_it_would_have_alone():
    curves = np.random.default_rng(0).normal(size=(5, 7))
    low, high = interval(curves)
    assert low.shape == high.shape == (7,)
    assert [(low[i], high[i]) for i in range(7)] == [interval(curves[:, i]) for i in range(7)]


def test_weights_count_as_often_as_they_say():
    heavy = np.concatenate([np.zeros(50), np.ones(50)]), np.concatenate([np.full(50, 3), np.ones(50)])
    low, high = interval(*heavy)
    assert low < 0.25 < high < 0.5
    assert interval([1.0, 2.0, 5.0, 3.0], [2, 2, 2, 2]) == pytest.approx(interval([1.0, 2.0, 5.0, 3.0]))
    two = np.array([[1.0, 2.0], [3.0, 5.0], [8.0, 1.0], [2.0, 2.0]])
    low, high = interval(two, [1, 2, 3, 4])
    assert (low[1], high[1]) == pytest.approx(interval(two[:, 1], [1, 2, 3, 4]))
