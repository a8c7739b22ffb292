"""Eq. 13 against answers computed by hand."""

import pytest

from megareward.analysis.improvement import improvement, improvement_over_seeds


@pytest.mark.parametrize(
    ("pretrained", "scratch", "random", "percent"),
    [
        (30.0, 20.0, 10.0, 200.0),  # (30 - 10) / (20 - 10)
        (20.0, 20.0, 10.0, 100.0),  # no improvement
        (10.0, 20.0, 10.0, 0.0),  # as if it had never been trained on the score
        (5.0, 20.0, 10.0, -50.0),  # worse than random play
        (-18.0, -20.0, -20.8, 350.0),  # 2.8 / 0.8: scores below zero
    ],
)
def test_improvement_is_equation_13(pretrained, scratch, random, percent):
    assert improvement(pretrained, scratch, random) == pytest.approx(percent)


@pytest.mark.parametrize("scratch", [10.0, 9.0])
def test_where_scratch_is_no_better_than_random_play_there_is_nothing_to_compare_with(scratch):
    assert improvement(30.0, scratch, 10.0) is None
    assert improvement_over_seeds([30.0, 31.0], [scratch], 10.0) == (None, None)


def test_over_seeds_it_is_that_of_the_means_and_the_interval_holds_it():
    mean, spread = improvement_over_seeds([20.0, 30.0, 40.0], [15.0, 25.0], 10.0)
    assert mean == pytest.approx(200.0)
    low, high = spread
    assert 100.0 <= low < mean < high <= 300.0
    assert improvement_over_seeds([30.0], [20.0], 10.0) == (pytest.approx(200.0), None)
