"""Runs that are carried between machines that share no folder."""

import time
from pathlib import Path
from uuid import uuid4

import pytest

from megareward.cli import main
from megareward.errors import UsageError
from megareward.experiments import carried
from megareward.experiments.carried import Store, do_carried
from megareward.experiments.runner import STOPPED, do_job, record_path
from megareward.runs.record import Record
from tests.unit.experiments.small_jobs import jobs, learnt

pytest.importorskip("fsspec")


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path) -> Store:
    return Store(f"memory://{uuid4()}" if request.param == "memory" else (tmp_path / "store").as_uri())


def test_what_is_kept_is_the_newest_and_whole(store, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    store.check()
    store.fetch("run", there)
    assert not there.exists()
    (here / "run" / "checkpoints").mkdir(parents=True)
    (here / "run" / "checkpoints" / "1").write_text("one")
    (here / "run" / "log").write_text("first")
    store.push("run", here)
    (here / "run" / "log").write_text("second")
    (here / "run" / "checkpoints" / "1").unlink()
    store.push("run", here)
    store.fetch("run", there)
    assert [path.relative_to(there) for path in there.rglob("*") if path.is_file()] == [Path("run/log")]
    assert (there / "run" / "log").read_text() == "second"


@pytest.mark.slow
def test_a_run_goes_on_where_nothing_of_it_is(tmp_path):
    """Stopped, continued from the store alone, and the same in the end as one that was never moved."""
    [job], store = jobs(tmp_path / "carried", 1, 480), Store(f"memory://{uuid4()}")
    trouble, files = do_carried(jobs(tmp_path, 1, 480, minutes=1e-4)[0], store)
    assert trouble.startswith(STOPPED)  # before the first game was over
    assert files == {}
    trouble, files = do_carried(job, store)
    assert trouble == ""
    assert files.keys() == {f"{job.cell.name}.json"}
    assert not job.runs.exists()
    job.results.mkdir(parents=True)
    record_path(job.results, job.cell).write_bytes(files[f"{job.cell.name}.json"])
    [whole] = jobs(tmp_path / "whole", 1, 480)
    assert do_job(whole) == ""
    assert learnt(job) == learnt(whole)
    assert len(Record.read(record_path(job.results, job.cell)).processes) == 2


def test_a_run_is_kept_while_it_is_made(tmp_path, monkeypatch):
    [job] = jobs(tmp_path, 1, 960)
    store = Store(f"memory://{uuid4()}")

    def made(here):
        here.path.mkdir(parents=True)
        (here.path / "log").write_text("half")
        time.sleep(0.5)
        raise MemoryError  # the worker dies

    monkeypatch.setattr(carried, "do_job", made)
    with pytest.raises(MemoryError):
        do_carried(job, store, every=0.05)
    store.fetch(job.name.replace("/", "--"), tmp_path / "there")
    assert [path.read_text() for path in (tmp_path / "there").rglob("log")] == ["half"]


def test_a_store_that_fails_once_is_tried_again(tmp_path, monkeypatch, capsys):
    [job] = jobs(tmp_path, 1, 960)
    store, tries = Store(f"memory://{uuid4()}"), []

    def push(self, name, folder):
        tries.append(name)
        if len(tries) == 1:
            raise OSError("the line is down")

    def made(here):
        time.sleep(0.5)
        return ""

    monkeypatch.setattr(Store, "push", push)
    monkeypatch.setattr(carried, "do_job", made)
    do_carried(job, store, every=0.05)
    assert len(tries) > 3
    assert "the line is down" in capsys.readouterr().err


def test_a_store_that_cannot_be_is_refused(tmp_path, capsys):
    with pytest.raises(UsageError, match="nonsense://here"):
        Store("nonsense://here").check()
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written to"):
        Store((tmp_path / "file" / "folder").as_uri()).check()
    assert main(["paper", "run", "grid", "--budget", "smoke", "--store", "memory://here"]) == 2
    assert "add --on ray" in capsys.readouterr().err
