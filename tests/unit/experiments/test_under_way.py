"""How far a sweep is."""

import json
from dataclasses import replace
from functools import partial

import pytest

from megareward.experiments import runner, under_way
from megareward.experiments.runner import Job, do_all
from megareward.experiments.under_way import UnderWay, done_of
from megareward.progress import Bar
from tests.unit.experiments.test_experiments import tiny

FRAMES = 1000


@pytest.fixture
def at(monkeypatch):
    """Sets the clock."""
    now = {"t": 100.0}
    monkeypatch.setattr(under_way.time, "monotonic", lambda: now["t"])
    return lambda seconds: now.update(t=100.0 + seconds)


def job(tmp_path, seed):
    return Job(tiny("a", "random", seed, frames=FRAMES), tmp_path / "runs", tmp_path / "sweep")


def trained(job, frames, tail=""):
    job.path.mkdir(parents=True, exist_ok=True)
    rows = [{"frames": frames // 2}, {"frames": frames}]
    (job.path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + tail)


def test_a_run_that_was_stopped_counts_from_where_it_was(tmp_path, at):
    jobs, sweep = [job(tmp_path, seed) for seed in range(3)], UnderWay(3)
    trained(jobs[0], 600)
    sweep.take(jobs[0])
    sweep.take(jobs[1])
    at(5)
    assert sweep.text() == f"0 of 3 runs  {jobs[0].cell.name} 60%, {jobs[1].cell.name} 0%  0m05s so far"
    trained(jobs[0], 700)
    trained(jobs[1], 200)
    at(10)  # .3 of a run in 10 seconds; 2.1 are to go
    assert sweep.left() == pytest.approx(70)
    assert sweep.text() == f"0 of 3 runs  {jobs[0].cell.name} 70%, {jobs[1].cell.name} 20%  1m10s left"
    sweep.end(jobs[0])
    at(20)  # .4 and .2; 1.8 are to go
    assert sweep.ended == 1
    assert sweep.left() == pytest.approx(60)
    sweep.end(jobs[1])
    sweep.take(jobs[2])
    sweep.end(jobs[2])
    assert sweep.left() == 0


def test_what_comes_after_training_is_named_and_has_no_time_left(tmp_path, at):
    player, audited = replace(job(tmp_path, 0), whole_games=30), replace(job(tmp_path, 1), audit=())
    sweep = UnderWay(2)
    sweep.take(player)
    sweep.take(audited)
    trained(player, FRAMES)
    trained(audited, FRAMES - 1)
    at(10)
    assert f"{player.cell.name} plays whole games, {audited.cell.name} 99%" in sweep.text()
    assert sweep.text().endswith("0m00s left")
    trained(audited, FRAMES)
    assert f"{audited.cell.name} is audited  0m10s so far" in sweep.text()
    assert sweep.left() is None


def test_many_runs_are_counted_and_not_named(tmp_path, at):
    sweep = UnderWay(9)
    for seed in range(5):
        sweep.take(job(tmp_path, seed))
    at(2)
    assert ", and 2 more  0m02s so far" in sweep.text()


@pytest.mark.parametrize(
    ("tail", "part"),
    [("", 0.4), ('{"frames": 9', 0.4), ("not json\n", 0.4), ("[1]\n", 0.4), ('{"frames": 5000}\n', 1.0)],
)
def test_the_last_whole_line_tells_the_frames(tmp_path, tail, part):
    one = job(tmp_path, 0)
    assert done_of(one) == 0  # nothing there yet
    trained(one, 400, tail)
    assert done_of(one) == part


def test_only_the_end_of_a_long_log_is_read(tmp_path):
    one = job(tmp_path, 0)
    trained(one, 400)
    log = one.path / "metrics.jsonl"
    log.write_text(json.dumps({"frames": 100, "more": "x" * 2**17}) + "\n" + log.read_text())
    assert done_of(one) == 0.4
    log.write_text(json.dumps({"frames": 100, "more": "x" * 2**17}) + "\n")
    assert done_of(one) == 0  # its beginning was not read


def test_a_sweep_tells_while_it_works(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Bar, "PLAIN_EVERY", 0.0)
    one, said = job(tmp_path, 0), []

    def work(job, over):
        trained(job, 250)
        assert not over.wait(1.5)
        return "failed"

    monkeypatch.setattr(runner, "do_job", work)
    assert do_all([one], 1, partial(runner.on_this_machine, at_a_time=1), said.append) == [one]
    assert f"0 of 1 runs  {one.cell.name} 25%" in capsys.readouterr().err
    assert said == [f"1 of 1  {one.cell.name}: failed  (0 min left)"]
