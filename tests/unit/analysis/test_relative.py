"""Eq. 12, 13 and 14 against answers worked out by hand."""

import pytest

from megareward.analysis.published import published_score
from megareward.analysis.relative import improvement, relative_ablation, relative_score


def test_the_papers_breakout_is_seven_times_a_human_player():
    """(225.3 - 1.7) / (31.8 - 1.7) = 223.6 / 30.1."""
    human, random, mega = (published_score(name, "breakout") for name in ("human/mnih2015", "random", "paper/mega"))
    assert (mega, human, random) == (225.3, 31.8, 1.7)
    assert relative_score(mega, human, random) == pytest.approx(742.857, abs=1e-3)


def test_negative_scores_are_on_the_same_scale():
    """Pong: (-3.29 + 20.7) / (9.3 + 20.7) = 17.41 / 30."""
    assert relative_score(-3.29, benchmark=9.3, random=-20.7) == pytest.approx(58.0333, abs=1e-3)
    assert relative_score(-20.7, benchmark=9.3, random=-20.7) == 0


def test_pretraining_is_measured_by_what_training_from_scratch_gains():
    assert improvement(pretrained=30.0, scratch=20.0, random=10.0) == 200
    assert improvement(pretrained=5.0, scratch=20.0, random=10.0) == -50


def test_an_ablation_is_measured_by_what_the_original_gains():
    """(7 - 3) / (8 - 3)."""
    assert relative_ablation(ablated=7.0, original=8.0, random=3.0) == pytest.approx(80)


@pytest.mark.parametrize("equation", [relative_score, improvement, relative_ablation])
@pytest.mark.parametrize("benchmark", [0.0, -1.0])
def test_a_benchmark_no_better_than_random_play_is_no_scale(equation, benchmark):
    assert equation(5.0, benchmark, 0.0) is None
