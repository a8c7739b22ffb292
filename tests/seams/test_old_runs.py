"""Runs that the first version wrote: everything that reads them still does, and resuming them is refused.

The files are made from a run of today by undoing what has changed since: names of settings and of tensors.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from megareward.audit.run_audit import audit_run
from megareward.cli import main
from megareward.errors import UsageError
from megareward.runs.checkpoint import list_checkpoints, read_checkpoint, save_checkpoint
from megareward.runs.folder import RunFolder
from megareward.runs.record import Record
from megareward.training.config import read_config
from megareward.training.evaluate import evaluate_run
from megareward.training.run import resume
from megareward.viewer.recording import record_run
from megareward.viewer.report import write_report
from tests.seams.small_runs import QUIET, run, small

CPU = torch.device("cpu")


def first_version(config: dict[str, Any]) -> dict[str, Any]:
    old = json.loads(json.dumps(config))
    old["ppo"] |= {"n_envs": old.pop("n_envs"), "rollout": old.pop("rollout_steps")}
    old["control"]["warmup_steps"] = old.pop("warmup_steps")
    del old["control"]["background_frames"], old["start_from"]
    return old


def as_the_first_version_wrote_it(new: Path, old: Path) -> None:
    shutil.copytree(new, old, ignore=shutil.ignore_patterns("checkpoints"))
    record = json.loads((new / "config.json").read_text())
    record |= {"config_version": 1, "config": first_version(record["config"])}
    (old / "config.json").write_text(json.dumps(record))
    tensors, state = read_checkpoint(list_checkpoints(new / "checkpoints")[-1])
    del state["format"]
    tensors = {name.removeprefix("observer.").replace("running.control.", "tracker."): t for name, t in tensors.items()}
    save_checkpoint(old / "checkpoints", state["frames"], tensors, state)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> tuple[Path, Path]:
    """The same run, of today and of then; its policy sees g, so that the control models are needed to play."""
    folder = tmp_path_factory.mktemp("runs")
    run(small("mega", g_channel="yes"), folder / "new")
    as_the_first_version_wrote_it(folder / "new", folder / "old")
    return folder / "new", folder / "old"


def test_its_settings_are_the_same(runs):
    new, old = (read_config(RunFolder.open(path), warn=pytest.fail) for path in runs)
    assert new == old


def test_it_plays_the_same_games(runs):
    new, old = (evaluate_run(path, 4, device=CPU, warn=pytest.fail) for path in runs)
    assert new == old


def test_it_is_watched_audited_reported_and_recorded_alike(runs, tmp_path, capsys):
    one, two = (record_run(path, 40, device=CPU, warn=pytest.fail) for path in runs)
    assert (one.learnt.g == two.learnt.g).all()
    assert (one.actions == two.actions).all()
    short = {"frames": 10, "episodes": 2, "lags": 3, "device": CPU, "warn": pytest.fail}
    one, two = (audit_run(path, cache=tmp_path / path.name, **short) for path in runs)
    assert one["scores"] == two["scores"]
    write_report(list(runs), tmp_path / "report.html")
    assert "2 runs" in (tmp_path / "report.html").read_text()
    records = [Record.of_run(path) for path in runs]
    assert records[0].score == records[1].score
    for name, record in zip(("new", "old"), records, strict=True):
        record.write(tmp_path / "ledger" / f"{name}.json")
    assert main(["results", str(tmp_path / "ledger")]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("mini-pong")]
    assert line.split()[3] == "2"  # one line: the same settings, under other names


def test_it_cannot_be_resumed_and_nothing_of_it_is_lost(runs):
    _, old = runs
    before = {file: file.read_bytes() for file in sorted(old.rglob("*")) if file.is_file()}
    with pytest.raises(UsageError, match=r"older megareward.*but not resumed"):
        resume(old, **QUIET)
    after = {file: file.read_bytes() for file in sorted(old.rglob("*")) if file.is_file()}
    assert before == after
