"""The table of causes crosses rewards with maps."""

import pytest

from megareward.experiments.plans import CAUSES
from megareward.experiments.plans.causes import REWARDS, RULES, WHOSE_MAPS


def scores(**rows: float) -> dict:
    """By row and column: `seeds` runs of each, around the given share of the way from random play to the score."""
    found = {}
    for n, column in enumerate(CAUSES.columns):
        for row, share in {"random": 0.0, "extrinsic": 1.0, **rows}.items():
            found[row, column] = [10 * n + (n + 1) * (share + spread) for spread in (-0.01, 0.01)]
    return found


def test_every_reward_has_all_maps_under_both_rules():
    assert len(CAUSES.rows) == 5 + len(REWARDS) * len(WHOSE_MAPS) * len(RULES)


def test_a_line_for_every_reward_and_a_column_for_everybodys_maps():
    found = scores(**{"moved, true maps": 0.5, "moved, untrained maps": 0.1, "level, learnt maps": 0.3})
    lines = CAUSES.remarks(found)
    assert lines[0] == "| causes, mean over the games | true maps | learnt maps | untrained maps |"
    assert [line for line in lines if line.startswith("| moved")] == [
        "| moved | 0.50 [0.49, 0.51] (2) | - | 0.10 [0.09, 0.11] (2) |"
    ]
    assert len(lines) == 2 + len(REWARDS) + 3  # one rule only: nothing is recorded where nothing ends


def test_a_row_that_lacks_a_game_has_no_mean():
    found = scores(**{"moved, true maps": 0.5, "level, true maps": 0.3})
    del found["moved, true maps", "mini-road"]
    lines = CAUSES.remarks(found)
    assert "| moved | - | - | - |" in lines
    assert CAUSES.normalised(found)["level, true maps"]["mini-road"] == pytest.approx([0.29, 0.31])


def test_without_the_ends_of_the_scale_there_is_no_table():
    found = scores(**{"moved, true maps": 0.5})
    del found["extrinsic", "mini-pong"]
    assert CAUSES.remarks(found) == []
