"""The method that exists for tests only joins the zoo while they run."""

import pytest

from megareward.rewards import METHODS
from tests.seams import frame_change


@pytest.fixture(autouse=True)
def one_more_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, frame_change.METHOD.name, frame_change.METHOD)
    monkeypatch.setenv("MEGAREWARD_COMMIT", "test")  # saves asking git at every start
