"""Waiting asleep is asked of the driver before anything else uses the GPU, and only if the environment asks for it."""

import pytest

from megareward.cuda import waits


class Driver:
    """Stands for libcuda: notes what is called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str):
        return lambda *_words: self.calls.append(name)


@pytest.fixture
def driver(monkeypatch) -> Driver:
    own = Driver()
    monkeypatch.setattr(waits.ctypes, "CDLL", lambda _name: own)
    return own


@pytest.mark.parametrize("value", [None, "", "spinning"])
def test_the_driver_is_left_alone_unless_asked(driver, monkeypatch, value):
    monkeypatch.delenv(waits.VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(waits.VARIABLE, value)
    waits.wait_as_asked()
    assert driver.calls == []


def test_flags_are_set_after_the_driver_has_begun(driver, monkeypatch):
    monkeypatch.setenv(waits.VARIABLE, waits.ASLEEP[waits.VARIABLE])
    waits.wait_as_asked()
    assert driver.calls == ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxSetFlags_v2"]
