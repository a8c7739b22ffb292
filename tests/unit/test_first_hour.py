"""The first hour of a new user, typed on a terminal: every command works and none is silent for long."""

import pytest

from tests.unit.test_imports import load_script


@pytest.mark.slow
def test_the_first_hour_in_short(tmp_path):
    first_hour = load_script("first_hour")
    stopped = []
    for typed, status in first_hour.first_hour(tmp_path, short=True):
        assert first_hour.faults_of(typed, status) == [], typed
        if typed.stopping is not None:
            stopped.append(typed.shown)
    assert len(stopped) == 1
    assert "Ctrl-C: stopping." in stopped[0]
    assert "`megareward resume runs/breakout-mega-s0` goes on." in stopped[0]
    assert "warm-up: random play" in stopped[0]
