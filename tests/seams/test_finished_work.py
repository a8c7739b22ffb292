"""Work that was done is not lost because its place cannot be written: it is printed first, and may go elsewhere.

A folder in the place of the file to be written stands for all that forbids writing; it stops root as well.
"""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from megareward.cli import main
from megareward.training.run import start
from tests.seams.small_runs import QUIET, small

AUDIT = ["--episodes", "2", "--frames", "12", "--lags", "5", "--device", "cpu"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return start(small("mega"), tmp_path / "run", **QUIET).path


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("words", "file", "printed"),
    [(["eval", "--episodes", "2"], "eval.jsonl", "of 2 games"), (["audit", *AUDIT], "audit-random.json", "AUROC")],
)
def test_results_are_printed_before_they_are_saved(run, words, file, printed, capsys):
    (run / file).mkdir()
    assert main([words[0], str(run), *words[1:]]) == 1
    out, err = capsys.readouterr()
    assert printed in out
    assert err.splitlines()[-1] == (
        f"megareward: Cannot write {run / file} (Is a directory); name another place, as with --out."
    )


@pytest.mark.parametrize(
    "words",
    [
        ["eval", "RUN", "--episodes", "2", "--out", "OUT.jsonl"],
        ["audit", "RUN", *AUDIT, "--cache", "OUT", "--out", "OUT", "--json", "OUT/all.json"],
        ["watch", "RUN", "--steps", "20", "--out", "OUT/watch.html"],
        ["report", "RUN", "--out", "OUT/report.html"],
        ["figure", "case-study", "--run", "RUN", "--steps", "30", "--out", "OUT/picture"],
    ],
)
def test_with_another_place_nothing_is_written_into_the_run(run, tmp_path, words):
    before = tree(run)
    places = {"RUN": str(run), "OUT": str(tmp_path / "out")}
    assert main([places["RUN"] if w == "RUN" else w.replace("OUT", places["OUT"]) for w in words]) == 0
    assert tree(run) == before
    assert any(path.name.startswith("out") for path in tmp_path.iterdir())


def test_audits_of_several_runs_go_to_folders_of_their_names(run, tmp_path):
    other = start(small("mega", seed=6), tmp_path / "other", **QUIET).path
    assert main(["audit", str(run), str(other), *AUDIT, "--out", str(tmp_path / "out")]) == 0
    found = [
        json.loads((tmp_path / "out" / name / "audit-random.json").read_text())["seed"] for name in ("run", "other")
    ]
    assert found == [5, 6]


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (["watch", "--steps", "20"], "watch.html"),
        (["figure", "case-study", "--steps", "20", "--run"], "case-study.png"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_work(run, words, file, capsys, monkeypatch):
    (run / file).mkdir()
    monkeypatch.setattr("megareward.viewer.watch.record", lambda *a, **k: pytest.fail("it played"))
    assert main([*words, str(run)]) == 2
    assert f"{run / file} cannot be written; name another place, as with --out." in capsys.readouterr().err


def test_a_truth_that_cannot_be_kept_stops_no_audit(run, tmp_path, capsys):
    (tmp_path / "audit-truth").write_text("no folder")
    assert main(["audit", str(run), *AUDIT]) == 0
    out, err = capsys.readouterr()
    assert "AUROC" in out
    assert "The truth cannot be kept in" in err


def test_a_full_disk_leaves_the_old_report_whole(run):
    assert main(["report", str(run)]) == 0
    before = (run / "report.html").read_bytes()

    def shrink_the_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    command = [sys.executable, "-m", "megareward.cli", "report", str(run)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, preexec_fn=shrink_the_disk, env=os.environ, check=False
    )
    assert done.returncode == 1
    assert (
        done.stderr
        == f"megareward: Cannot write {run / 'report.html'} (File too large); name another place, as with --out.\n"
    )
    assert (run / "report.html").read_bytes() == before
    assert not list(run.glob(".writing*"))


def test_damaged_lines_of_logs_stop_neither_a_record_nor_the_viewer(run, tmp_path, capsys):
    cache = ["--cache", str(run / "audit-truth")]
    assert main(["audit", str(run), *AUDIT, *cache]) == 0
    for log in ("metrics.jsonl", "scores.jsonl", "processes.jsonl"):
        (run / log).write_text("nonsense {\n" + (run / log).read_text())
    capsys.readouterr()
    assert main(["results", "add", str(run), "--ledger", str(tmp_path / "ledger")]) == 0
    assert main(["watch", str(run), "--audited", "--policy", "random", "--out", str(tmp_path / "w.html")]) == 0
    assert main(["report", str(run)]) == 0
    said = capsys.readouterr().err
    assert "scores.jsonl has 1 damaged of " in said
    assert "internal error" not in said
