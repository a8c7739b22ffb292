"""The line that tells how far long work has come."""

import io

import pytest

from megareward import progress
from megareward.progress import Bar


class Screen(io.StringIO):
    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.fixture
def at(monkeypatch):
    """Sets the clock."""
    now = {"t": 100.0}
    monkeypatch.setattr(progress.time, "monotonic", lambda: now["t"])
    return lambda seconds: now.update(t=100.0 + seconds)


def told(monkeypatch, at, is_terminal: bool, calls: list[tuple[float, int]], of: int = 8) -> str:
    screen = Screen(is_terminal)
    monkeypatch.setattr(progress.sys, "stderr", screen)
    bar = Bar("games")
    for seconds, done in calls:
        at(seconds)
        bar(done, of)
    return screen.getvalue()


def test_a_terminal_has_one_line_that_renews_itself_and_ends(monkeypatch, at):
    text = told(monkeypatch, at, True, [(0.4, 0), (1.0, 0), (1.2, 1), (4.0, 2), (9.0, 8)])
    lines = [line.strip() for line in text.split("\r")[1:]]
    assert lines == [
        "0 of 8 games  0m01s so far",  # nothing is known of the pace yet
        "2 of 8 games  2 s each  0m12s left",
        "8 of 8 games  in 0m09s",
    ]
    assert text.count("\n") == 1
    assert text.endswith("\n")


def test_a_line_is_no_longer_than_the_terminal_and_covers_the_one_before(monkeypatch, at):
    screen = Screen(True)
    monkeypatch.setattr(progress.sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "30")
    bar = Bar("games")
    bar.show("x" * 50)
    bar.show("y")
    assert screen.getvalue() == "\r" + "x" * 29 + "\r" + "y".ljust(29)


def test_elsewhere_a_line_comes_now_and_then(monkeypatch, at):
    text = told(monkeypatch, at, False, [(1.0, 1), (16.0, 2), (20.0, 3), (32.0, 4), (33.0, 8)])
    assert text.splitlines() == [
        "2 of 8 games  8 s each  0m48s left",
        "4 of 8 games  8 s each  0m32s left",
        "8 of 8 games  in 0m33s",
    ]


def test_short_work_says_nothing_where_nobody_watches(monkeypatch, at):
    assert told(monkeypatch, at, False, [(1.0, 1), (5.0, 8)]) == ""


def test_fast_work_has_a_rate(monkeypatch, at):
    assert told(monkeypatch, at, False, [(16.0, 40)], of=80) == "40 of 80 games  2.5/s  0m16s left\n"
