"""The mean over the last 50 games, at the end and along the way."""

import numpy as np
import pytest

from megareward.statistics.scores import CURVE_POINTS, RECENT, curve, curve_errors, last_mean, last_scores


def test_the_last_mean_is_over_50_games_or_as_many_as_there_are():
    episodes = [{"frames": i, "score": float(i)} for i in range(60)]
    assert last_mean(episodes) == sum(range(10, 60)) / 50
    assert len(last_scores(episodes)) == RECENT == 50
    assert last_mean(episodes[:3]) == 1


def test_the_curve_is_the_mean_of_the_last_50_games():
    episodes = [{"frames": 10 * i, "score": float(i)} for i in range(1, 121)]
    points = dict(map(tuple, curve(episodes)))
    assert points[10] == 1.0
    assert points[100] == 5.5
    assert points[1200] == sum(range(71, 121)) / 50 == last_mean(episodes)
    assert len(points) == 120


def test_every_point_of_a_curve_has_the_error_of_its_own_games():
    episodes = [{"frames": 10 * i, "score": float(i % 7)} for i in range(1, 121)]
    errors = curve_errors(episodes)
    assert len(errors) == len(curve(episodes))
    assert np.isnan(errors[0])
    assert errors[-1] == pytest.approx(np.std([i % 7 for i in range(71, 121)], ddof=1) / np.sqrt(50))


def test_a_long_curve_is_thinned_but_keeps_its_end():
    episodes = [{"frames": i, "score": 2.0} for i in range(1, 100_001)]
    points = curve(episodes)
    assert len(points) == CURVE_POINTS
    assert points[-1] == [100_000, 2.0]
    assert [p[0] for p in points] == sorted({p[0] for p in points})


def test_the_points_of_a_curve_are_spread_over_frames_not_over_games():
    short = [{"frames": i, "score": 1.0} for i in range(1, 10_001)]  # a game per frame, then one in a hundred
    long = [{"frames": 10_000 + 100 * i, "score": 2.0} for i in range(1, 101)]
    points = curve([*short, *long])
    assert 95 <= sum(frames > 10_000 for frames, _ in points) <= 105
    assert points[-1][0] == 20_000
