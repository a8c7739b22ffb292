"""An audit on a truth set that was made before says what one says that branches the game itself, bit for bit."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from megareward.audit import record
from megareward.audit.record import Plan, find_truth
from megareward.audit.run_audit import audit_run
from megareward.cli import main
from megareward.envs.atari_config import AtariConfig
from megareward.envs.mini import mini_config
from megareward.errors import RunError, UsageError
from megareward.training.config import TrainConfig
from megareward.training.run import start
from tests.seams.small_runs import QUIET, TINY_CONTROL, small

CPU = torch.device("cpu")
PLAN = Plan(episodes=3, frames=30, lags=5)
CONTROL = replace(TINY_CONTROL, H=2, W=4)
GAMES = {
    "mini-demon": {"env": mini_config("mini-demon", max_steps=23)},  # 4 actions, 2 x 4 cells, 3 episodes, 5 lags
    "breakout": {"env": AtariConfig(threads=1, groups=3, px=56), "frames": 4 * 36},
}


@pytest.fixture(scope="module", params=GAMES)
def run(request, tmp_path_factory) -> Path:
    config = small("mega", game=request.param, control=CONTROL, **GAMES[request.param])
    return start(config, tmp_path_factory.mktemp("runs") / "run", **QUIET).path


@pytest.fixture(scope="module")
def made(run, tmp_path_factory) -> Path:
    """The set of the run's game as somebody else makes it: other models, threads and groups."""
    game = "breakout" if "breakout" in (run / "config.json").read_text() else "mini-demon"
    env = GAMES[game]["env"].with_groups(1).with_threads(2)
    _, path = find_truth(
        TrainConfig("mega", game, env=env, control=replace(CONTROL, passes=0)),
        PLAN,
        tmp_path_factory.mktemp("made"),
        processes=1,
    )
    return path


def audited(run: Path, **options):
    asked = {"lags": PLAN.lags, "frames": PLAN.frames, "episodes": PLAN.episodes, "processes": 1, "device": CPU}
    return audit_run(run, **asked | options)


def test_it_is_scored_as_by_an_audit_that_branches_itself(run, made, tmp_path, monkeypatch):
    own = audited(run, cache=tmp_path)
    monkeypatch.setattr(record, "branched", None)  # to look for the truth again would fail
    for given in (made, made.parent):
        shared = audited(run, truth_from=given)
        assert (run / shared["truth"]).samefile(made)
        assert {**shared, "truth": 0, "seconds": 0} == {**own, "truth": 0, "seconds": 0}
    assert own["scores"]["direct_auroc"]["mean"] is not None


def test_the_command_line_takes_it_for_runs_and_for_maps(made, run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(record, "branched", None)
    short = ["--lags", "5", "--frames", "30", "--episodes", "3", "--device", "cpu"]
    assert main(["audit", str(run), *short, "--truth", str(made), "--out", str(tmp_path)]) == 0
    assert "direct control, AUROC" in capsys.readouterr().out
    maps = ["--maps", "examples.control_maps:motion_mask", "--game", "mini-demon"]
    assert main(["audit", *maps, *short, "--truth", str(made)]) == 2  # theirs is the default grid
    assert "--cache FOLDER in place of --truth" in capsys.readouterr().err
    assert main(["audit", str(run), "--truth", str(made), "--cache", str(tmp_path)]) == 2
    assert "use either" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "options", "sentence"),
    [
        (
            {"game": "mini-pong", "env": mini_config("mini-pong")},
            {},
            "with game mini-pong, but this audit needs mini-d",
        ),
        ({"env": mini_config("mini-demon", max_steps=9)}, {}, r"with env\.max_steps 9, but this audit needs 23"),
        ({"control": replace(CONTROL, H=4)}, {}, r"with grid \[4, 4\], but this audit needs \[2, 4\]"),
        ({}, {"lags": 6}, "with lags 5, but this audit needs 6; add --lags 5, or give the set made for it"),
        ({}, {"episodes": 2}, "with episodes 3, but this audit needs 2; add --episodes 3, or"),
        ({}, {"policy": "trained"}, "with policy random, but this audit needs trained"),
    ],
)
def test_a_set_of_something_else_is_refused_by_name(changes, options, sentence, mini_run, tmp_path):
    settings = {"game": "mini-demon", "control": CONTROL, **GAMES["mini-demon"]} | changes
    _, path = find_truth(TrainConfig("mega", **settings), PLAN, tmp_path)
    with pytest.raises(UsageError, match=sentence):
        audited(mini_run, truth_from=path, **options)
    with pytest.raises(UsageError, match=f"has no truth for this audit .*; --cache {tmp_path} in place of --truth"):
        audited(mini_run, truth_from=tmp_path, **options)


@pytest.fixture(scope="module")
def mini_run(tmp_path_factory) -> Path:
    config = small("mega", game="mini-demon", control=CONTROL, **GAMES["mini-demon"])
    return start(config, tmp_path_factory.mktemp("mini") / "run", **QUIET).path


@pytest.mark.parametrize("damage", ["one bit", "cut short", "something else"])
def test_a_damaged_set_is_refused(damage, mini_run, tmp_path):
    config = TrainConfig("mega", "mini-demon", control=CONTROL, **GAMES["mini-demon"])
    _, path = find_truth(config, PLAN, tmp_path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes({"one bit": data, "cut short": data[: len(data) // 2], "something else": b"{}"}[damage])
    with pytest.raises(RunError, match=r"is damaged .*; remove it and audit again"):
        audited(mini_run, truth_from=path)
    with pytest.raises(UsageError, match=r"--truth .*nowhere does not exist"):
        audited(mini_run, truth_from=tmp_path / "nowhere")


def test_of_several_that_ask_at_once_one_finds_it_and_the_others_wait(tmp_path, monkeypatch):
    config = TrainConfig("mega", "mini-demon", control=CONTROL, **GAMES["mini-demon"])
    branched, found = record.branched, []

    def slowly(*asked):
        found.append(asked)
        time.sleep(0.5)
        if len(found) == 1:
            raise RunError("The first one fails.")
        return branched(*asked)

    monkeypatch.setattr(record, "branched", slowly)
    left_behind = record.truth_path(record.question(config, PLAN, {}), tmp_path)
    left_behind.with_name(f".{left_behind.name}.lock").touch()  # by a process that was killed

    def ask(_):
        try:
            return find_truth(config, PLAN, tmp_path)
        except RunError as why:
            return why

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, range(4)))
    assert len(found) == 2
    failed, *(one, two, three) = sorted(answers, key=lambda answer: isinstance(answer, tuple))
    assert str(failed) == "The first one fails."
    assert {path for _, path in (one, two, three)} == {left_behind}
    assert all(torch.equal(one[0].episodes[1].changed, other[0].episodes[1].changed) for other in (two, three))
    assert [path.name for path in tmp_path.iterdir()] == [left_behind.name]
