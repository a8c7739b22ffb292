"""Weights & Biases beside the logs: through a stand-in, and through the package itself where it is installed."""

import importlib.util
import sys
from types import SimpleNamespace

import pytest

from megareward.errors import UsageError
from megareward.training.run import resume, start
from tests.seams.small_runs import QUIET, N, T, small


def test_every_iteration_reaches_the_tracker_and_a_resumed_run_goes_on_in_the_same_one(tmp_path, monkeypatch):
    begun, rows, finished = [], [], []
    run = SimpleNamespace(log=lambda row, step: rows.append((step, row)), finish=lambda: finished.append(True))
    package = SimpleNamespace(init=lambda **words: begun.append(words) or run, __spec__=True)
    monkeypatch.setitem(sys.modules, "wandb", package)
    start(small("rnd"), tmp_path / "run", track="wandb", minutes=1e-9, **QUIET)
    resume(tmp_path / "run", track="wandb", **QUIET)
    assert [step for step, _ in rows] == [N * T * i for i in (1, 2, 3, 4)]
    assert all("reward/rnd" in row and "frames" not in row for _, row in rows)
    assert begun[0]["id"] == begun[1]["id"]
    assert begun[0]["config"]["method"] == "rnd"
    assert len(finished) == 2


def test_without_the_package_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'megareward\[wandb\]'"):
        start(small("rnd"), tmp_path / "run", track="wandb", **QUIET)
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(
    importlib.util.find_spec("wandb") is None, reason='needs the extra: pip install "megareward[wandb]"'
)
def test_offline_everything_stays_in_the_runs_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    start(small("rnd"), tmp_path / "run", track="wandb", **QUIET)
    assert list((tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb"))
