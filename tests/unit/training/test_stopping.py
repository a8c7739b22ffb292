"""A run stops with its sweep; told by both, it stops once, and saves."""

import signal

import pytest

from megareward import parent
from megareward.errors import StoppedError
from megareward.training.stopping import stop_signals

NOBODY = -1
"""No process has this parent, so it counts as dead."""


def test_a_run_stops_when_its_sweep_is_gone():
    with stop_signals() as stop:
        parent.end_with(NOBODY).join()
        assert stop.names == ["SIGTERM"]


def test_a_run_that_is_stopping_is_not_hurried_by_the_end_of_its_sweep():
    """As when a job is cancelled, and every process of it is told."""
    with stop_signals() as stop:
        signal.raise_signal(signal.SIGTERM)
        parent.end_with(NOBODY).join()
        assert stop.names == ["SIGTERM"]
    assert not parent.STOPPING.is_set()


def test_a_second_signal_from_outside_is_an_order():
    with stop_signals():
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(StoppedError):
            signal.raise_signal(signal.SIGTERM)
