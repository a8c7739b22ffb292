"""Records: all that were ever written can be read, and what is read and written again is the same."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from megareward.cli import main
from megareward.errors import RunError, UsageError
from megareward.runs.record import RECORD_VERSION, Record, read_records, thinned
from tests.unit.records import make_record
from tests.unit.test_imports import BLOCKED, run_python

RESULTS = Path(__file__).parents[3] / "results"
KEPT = [file for part in ("runs", "experiments") for file in sorted((RESULTS / part).rglob("*.json"))]


def test_every_record_under_results_loads_and_is_the_same_when_written_again(tmp_path):
    assert len(KEPT) > 400
    for file in KEPT:
        record = Record.read(file)
        again = record.write(tmp_path / "again.json")
        assert Record.read(again) == record, file
        assert again.read_bytes() == file.read_bytes(), file


def test_other_json_under_results_is_passed_over():
    found = read_records([RESULTS])
    assert len(KEPT) <= len(found) < len(list(RESULTS.rglob("*.json")))


def test_a_record_comes_back_as_it_was_written(tmp_path):
    record = make_record(evaluations=[{"scores": [1.0, 2.5]}], audit={"lags": 4})
    data = json.loads(record.write(tmp_path / "new" / "record.json").read_text())
    assert data["record_version"] == RECORD_VERSION
    again = Record.read(tmp_path / "new" / "record.json")
    assert replace(again, config=record.config) == record  # JSON has lists where a config has tuples
    assert "audit" not in json.loads(make_record().write(tmp_path / "plain.json").read_text())


def test_the_curve_of_a_metric_is_made_of_means_and_of_what_the_run_has(tmp_path):
    rows = [{"frames": 10 * n, "late": float(n)} for n in range(1, 101)]
    assert thinned([]) == []
    assert thinned([[row["frames"], row["late"]] for row in rows[:3]]) == [[10, 1.0], [20, 2.0], [30, 3.0]]
    points = thinned([[row["frames"], row["late"]] for row in rows])
    assert len(points) == 20
    assert (points[0], points[-1]) == ([50, 3.0], [1000, 98.0])
    run = tmp_path / "run"
    words = ["train", "g-rnd", "--game", "mini-pong", "--preset", "debug", "--out", str(run), "--no-tensorboard"]
    assert main(words) == 0
    record = Record.of_run(run).with_metrics(run, ("g-rnd/novelty_inside", "a-rnd/novelty_inside"))
    assert record.metrics.keys() == {"g-rnd/novelty_inside"}
    assert Record.read(record.write(tmp_path / "record.json")).metrics == record.metrics
    assert Record.of_run(run).with_metrics(run, ("a-rnd/novelty_inside",)).metrics is None


def test_a_record_without_a_version_is_of_version_1_and_stays_so(tmp_path):
    path = make_record().write(tmp_path / "old.json")
    data = json.loads(path.read_text())
    for younger in ("record_version", "evaluations", "processes"):
        del data[younger]
    path.write_text(json.dumps(data))
    old = Record.read(path)
    assert (old.record_version, old.evaluations, old.processes, old.audit) == (1, [], [], None)
    assert "record_version" not in json.loads(old.write(path).read_text())


@pytest.mark.parametrize("version", [RECORD_VERSION + 1, 0, "2", None])
def test_a_version_that_is_not_known_is_refused(tmp_path, version):
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"record_version": version}))
    for read in (Record.read, lambda path: read_records([path])):
        with pytest.raises(UsageError, match=rf"record\.json is a record of version {version}, .* up to 2"):
            read(path)


def test_what_is_no_record_is_named_with_what_is_wrong(tmp_path):
    path = make_record().write(tmp_path / "record.json")
    good = json.loads(path.read_text())
    without = {name: value for name, value in good.items() if name != "score"}
    for data, words in (([1], "but list"), (without, "it has no 'score'"), ({**good, "more": 1}, "entry 'more'")):
        path.write_text(json.dumps(data))
        with pytest.raises(RunError, match=words):
            Record.read(path)


def test_a_write_that_fails_leaves_the_old_record(tmp_path, monkeypatch):
    path = make_record(score=1.0).write(tmp_path / "record.json")

    def fails(*places):
        raise OSError("no space")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="no space"):
        make_record(score=2.0).write(path)
    assert Record.read(path).score == 1.0
    assert list(tmp_path.iterdir()) == [path]


def test_records_are_found_in_folders_and_by_name_and_other_files_are_passed_over(tmp_path):
    for game in ("pong", "breakout"):
        make_record(game).write(tmp_path / game / "0.json")
    (tmp_path / "table.json").write_text("[1, 2]")
    (tmp_path / "bench.json").write_text('{"game": "pong"}')
    assert [record.game for record in read_records([tmp_path])] == ["breakout", "pong"]
    assert [record.game for record in read_records([tmp_path / "pong" / "0.json"])] == ["pong"]


def test_places_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(UsageError, match="nowhere does not exist"):
        read_records([tmp_path / "nowhere"])
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(RunError, match=r"broken\.json is not valid JSON"):
        read_records([tmp_path])


def test_a_run_that_is_not_over_says_so():
    assert make_record().length == "10M"
    assert make_record(frames=71_598_080, planned=80_000_000).length == "71.6M of 80M"


def test_records_are_read_without_torch():
    source = f"from pathlib import Path\nfrom megareward.runs.record import Record\nRecord.read(Path({str(KEPT[0])!r}))"
    run_python(BLOCKED.format(names={"torch"}) + source)
