"""A run's folder appears whole, is never overwritten, and is worked on by one process at a time."""

import errno
import json
import os
from pathlib import Path

import pytest

from megareward.errors import RunError, UsageError
from megareward.runs import folder as run_folder
from megareward.runs.durable import save_file
from megareward.runs.folder import RunFolder, free_name, is_run
from megareward.training.config import CONFIG_VERSION, TrainConfig, create_run, read_config

CONFIG = TrainConfig(method="extrinsic", frames=96, seed=3)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return create_run(tmp_path / "run", CONFIG, {"commit": "abc"})


def no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# Creating ------------------------------------------------------------------------------------------------------------


def test_a_new_run_holds_its_config_and_where_it_comes_from(folder):
    assert read_config(folder) == CONFIG
    assert folder.record()["provenance"] == {"commit": "abc"}
    assert [path.name for path in folder.path.parent.iterdir()] == ["run"]  # nothing else was left beside it
    assert folder.path.stat().st_mode & 0o777 == 0o755


def test_missing_parents_are_made_and_an_empty_folder_is_used(tmp_path):
    assert is_run(create_run(tmp_path / "a" / "b" / "run", CONFIG, {}).path)
    (tmp_path / "empty").mkdir()
    assert is_run(create_run(tmp_path / "empty", CONFIG, {}).path)


def test_a_run_is_never_overwritten(folder):
    before = (folder.path / "config.json").read_bytes()
    with pytest.raises(UsageError, match=r"exists already: `megareward resume .*run` continues it"):
        create_run(folder.path, TrainConfig(method="random"), {})
    assert (folder.path / "config.json").read_bytes() == before


def test_a_folder_or_file_of_something_else_is_not_touched(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("precious")
    with pytest.raises(UsageError, match="holds something else"):
        create_run(tmp_path / "thesis", CONFIG, {})
    with pytest.raises(UsageError, match="exists already"):
        create_run(tmp_path / "thesis" / "chapter.tex", CONFIG, {})
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["chapter.tex"]


def test_a_folder_that_cannot_be_made_is_a_usage_error_that_names_it(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"Cannot create .*file/run \(.*\); choose another --out"):
        create_run(tmp_path / "file" / "run", CONFIG, {})


@pytest.mark.parametrize("call", ["write_synced", "os.rename"])
def test_a_full_disk_while_creating_leaves_no_folder_behind(tmp_path, monkeypatch, call):
    monkeypatch.setattr(*([run_folder, call] if call == "write_synced" else [os, "rename"]), no_space)
    with pytest.raises(RunError, match="No space is left"):
        create_run(tmp_path / "run", CONFIG, {})
    assert list(tmp_path.iterdir()) == []


def test_of_two_that_create_the_same_run_one_is_refused(tmp_path, monkeypatch):
    """The other process creates it between our look and our rename."""
    real_rename = os.rename

    def late(source, target):
        with monkeypatch.context() as undisturbed:
            undisturbed.setattr(os, "rename", real_rename)
            create_run(tmp_path / "run", TrainConfig(method="random"), {})
        real_rename(source, target)

    monkeypatch.setattr(os, "rename", late)
    with pytest.raises(UsageError, match="exists already"):
        create_run(tmp_path / "run", CONFIG, {})
    assert read_config(RunFolder.open(tmp_path / "run")).method == "random"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_first_free_name_is_numbered(tmp_path):
    assert free_name(tmp_path / "run") == tmp_path / "run"
    for name in ("run", "run-2"):
        (tmp_path / name).mkdir()
    assert free_name(tmp_path / "run") == tmp_path / "run-3"


# Opening -------------------------------------------------------------------------------------------------------------


def test_opening_what_is_no_run_says_what_is_missing(tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        RunFolder.open(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"no config\.json"):
        RunFolder.open(tmp_path)


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        ({"config_version": CONFIG_VERSION + 1, "config": {}}, f"reads versions 1 to {CONFIG_VERSION}"),
        ({"config": {}}, "config version None"),
        ({}, "holds no configuration"),
        ([], "holds no configuration"),
    ],
)
def test_a_config_of_another_version_is_refused(folder, record, complaint):
    (folder.path / "config.json").write_text(json.dumps(record))
    with pytest.raises(UsageError, match=complaint):
        read_config(folder)


def test_a_config_that_is_no_json_is_named(folder):
    (folder.path / "config.json").write_text('{"config_version": 1,')
    with pytest.raises(RunError, match=r"config\.json is not valid JSON"):
        read_config(folder)


# Locking -------------------------------------------------------------------------------------------------------------


def test_a_second_worker_is_refused_until_the_first_is_done(folder):
    other = RunFolder.open(folder.path)
    folder.lock()
    open_files = len(os.listdir("/dev/fd"))
    with pytest.raises(UsageError, match="Another process is working on"):
        other.lock()
    assert len(os.listdir("/dev/fd")) == open_files  # a refusal leaves nothing open behind
    folder.unlock()
    other.lock()
    other.unlock()


# Logs ----------------------------------------------------------------------------------------------------------------


def test_a_half_line_is_not_read(folder):
    (folder.path / "metrics.jsonl").write_text('{"frames": 1}\n{"frames": 2}\n{"fra')
    assert folder.rows("metrics.jsonl") == [{"frames": 1}, {"frames": 2}]
    assert folder.rows("scores.jsonl") == []


def test_appending_after_a_half_line_drops_it(folder):
    (folder.path / "processes.jsonl").write_text('{"from_frames": 0}\n{"from_fra')
    folder.note_process(24, {"cores": 2})
    folder.append("eval.jsonl", {"scores": [1.5]})
    assert folder.rows("processes.jsonl") == [{"from_frames": 0}, {"from_frames": 24, "provenance": {"cores": 2}}]
    assert folder.rows("eval.jsonl") == [{"scores": [1.5]}]


def test_logs_are_cut_back_to_the_moment_of_the_checkpoint(folder):
    metrics, scores = folder.path / "metrics.jsonl", folder.path / "scores.jsonl"
    metrics.write_text('{"frames": 1}\n')
    assert folder.log_sizes() == {"metrics.jsonl": 14, "scores.jsonl": 0}
    sizes = folder.log_sizes()
    with open(metrics, "a") as file:
        file.write('{"frames": 2}\n{"half')
    scores.write_text('{"score": 5.0}\n')
    folder.cut_logs(sizes)
    assert folder.rows("metrics.jsonl") == [{"frames": 1}]
    assert scores.read_bytes() == b""


def test_a_log_that_is_shorter_than_its_checkpoint_says_ends_with_a_whole_line(folder):
    """What is appended next must not begin in the middle of a line."""
    (folder.path / "metrics.jsonl").write_text('{"frames": 1}\n{"frames": 2, "loss"')
    said: list[str] = []
    folder.cut_logs({"metrics.jsonl": 1000, "scores.jsonl": 7}, said.append)
    assert (folder.path / "metrics.jsonl").read_bytes() == b'{"frames": 1}\n'
    assert ["metrics.jsonl has lost 986 of its 1000 bytes" in said[0], "scores.jsonl has lost 7 of" in said[1]] == [
        True
    ] * 2


@pytest.mark.parametrize("name", ["metrics.jsonl", "scores.jsonl", "processes.jsonl", "checkpoints", "tensorboard"])
def test_a_link_in_the_place_of_what_training_writes_is_refused(folder, tmp_path, name):
    target = tmp_path / "precious"
    target.write_text("precious")
    (folder.path / name).symlink_to(target)
    with pytest.raises(UsageError, match=rf"{name} is a link, which is not followed"):
        folder.lock()
    assert target.read_text() == "precious"


def test_no_write_follows_a_link(folder, tmp_path):
    target = tmp_path / "precious"
    target.write_text("precious\n")
    for name in ("metrics.jsonl", "eval.jsonl", "report.html"):
        (folder.path / name).symlink_to(target)
    with pytest.raises(OSError, match="symbolic link"):
        folder.append("eval.jsonl", {})
    with pytest.raises(OSError, match="symbolic link"):
        folder.cut_logs({"metrics.jsonl": 3})
    with pytest.raises(UsageError, match=r"report\.html is a link"):
        save_file(folder.path / "report.html", b"page")
    assert target.read_text() == "precious\n"


def test_a_run_without_a_checkpoint_starts_its_logs_anew(folder):
    (folder.path / "metrics.jsonl").write_text('{"frames": 1}\n')
    folder.cut_logs({})
    assert folder.rows("metrics.jsonl") == []
