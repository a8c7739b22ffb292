"""Runs whose picture is held still are runs like any other: flipped, stopped, resumed, collected fast and audited."""

from dataclasses import replace

import pytest
import torch

from megareward.audit.camera import film, moved
from megareward.audit.maps import Maps
from megareward.audit.record import Plan, find_truth
from megareward.audit.run_audit import audit_run
from megareward.cli import main
from megareward.control.config import OracleConfig
from megareward.control.grid import Grid
from megareward.envs.mini import PongConfig
from megareward.errors import UsageError
from megareward.runs.logs import method_and_rule
from megareward.training.config import bearing, to_dict
from tests.seams.small_runs import TINY_CONTROL, assert_same, run, run_with_a_stop, small, whole
from tests.seams.test_fast_and_plain import fast_collector
from tests.seams.test_flip import assert_nothing_but_the_score_changed

CPU = torch.device("cpu")
CAMERA = PongConfig(moving_camera=True, points=1, max_steps=30)


def test_it_is_flipped_stopped_resumed_and_collected_fast_like_the_others(tmp_path, monkeypatch):
    config = small("mega", env=CAMERA, stabilise=2)
    assert_nothing_but_the_score_changed(config, tmp_path)
    assert_same(whole(config)[0], run_with_a_stop(config, tmp_path / "stopped", 29, "power cut"))
    monkeypatch.setattr("megareward.training.loop.make_collector", fast_collector)
    assert_same(whole(config)[0], run(config, tmp_path / "fast")[0])


def test_the_truth_behind_a_moving_camera_is_that_of_the_game(tmp_path):
    plan, config = Plan("random", 3, 40, 4), small("mega", env=CAMERA)
    plain = replace(config, env=replace(CAMERA, moving_camera=False))
    (truth, path), (wanted, same) = (find_truth(one, plan, tmp_path) for one in (config, plain))
    assert path == same
    assert film(wanted, plain).offsets is None

    shown = film(truth, config)
    assert shown.offsets is not None
    for episode, seen, at in zip(truth.episodes, shown.truth.episodes, shown.offsets, strict=True):
        assert at.any()
        for frame, own, (down, right) in zip(episode.frames, seen.frames, at.tolist(), strict=True):
            assert right == 0
            assert torch.equal(own[max(0, -down) : 32 - max(0, down)], frame[max(0, down) : 32 - max(0, -down)])

    held = film(truth, replace(config, stabilise=2))
    assert held.offsets is None  # all shifts were found, so maps lie where the truth does
    found = film(wanted, replace(plain, stabilise=2))
    assert found.offsets is None
    assert all(torch.equal(a.frames, b.frames) for a, b in zip(found.truth.episodes, wanted.episodes, strict=True))


def test_maps_over_the_screen_are_drawn_where_the_truth_is(tmp_path):
    grid = Grid(2, 3, 4, 6)
    maps = torch.tensor([[1.0, 2, 3, 4, 5, 6]]).repeat(3, 1)
    by = torch.tensor([[0, 0], [2, -2], [0, 1]])  # not at all, by whole cells, by half a cell
    assert moved(maps, by, grid).tolist() == [[1, 2, 3, 4, 5, 6], [5, 6, 4, 2, 3, 1], [2, 1.5, 2.5, 5, 4.5, 5.5]]

    truth, _ = find_truth(small("mega", env=CAMERA), Plan("random", 2, 20, 3), tmp_path)
    shown = film(truth, small("mega", env=CAMERA))
    everywhere = [Maps(*(torch.ones(len(e.frames), 16) for _ in range(3)), e.influence.float()) for e in truth.episodes]
    for own in shown.in_place(everywhere):
        assert (own.direct == 1).all()
        assert own.influence is None  # what leads from frame to frame is not moved


def test_an_audit_plays_in_front_of_the_camera_and_asks_the_game_for_the_truth(tmp_path):
    options = {"lags": 3, "frames": 20, "episodes": 2, "cache": tmp_path / "truth", "device": CPU}
    run(small("mega", env=CAMERA, stabilise=2), tmp_path / "held")
    run(small("mega", env=CAMERA), tmp_path / "screen")
    held, screen = (audit_run(tmp_path / name, **options) for name in ("held", "screen"))
    assert len(list((tmp_path / "truth").iterdir())) == 1
    assert held["controls"]["seen"] == screen["controls"]["seen"]
    assert "relation_auroc" in held["scores"]
    assert "relation_auroc" not in screen["scores"]
    for row in ("untrained", "uniform"):
        assert screen["controls"][row]["direct_auroc"]["mean"] == pytest.approx(0.5, abs=0.05)
    with pytest.raises(UsageError, match="sees its game through a moving camera or held still"):
        audit_run(tmp_path / "held", policy="trained", **options)


def test_results_say_it_and_runs_without_are_what_they_were():
    without = to_dict(small("rnd"))
    older = {name: value for name, value in without.items() if name != "stabilise"}
    held = to_dict(small("rnd", stabilise=2))
    assert bearing(older) == bearing(without) != bearing(held)
    assert (method_and_rule(older), method_and_rule(held)) == ("rnd", "rnd, stabilised")


def test_what_cannot_be_is_refused_by_a_sentence(capsys):
    assert main(["train", "mega", "--stabilise", "99"]) == 2
    assert "--stabilise is 99; use 0 (off) to 16 pixels." in capsys.readouterr().err
    with pytest.raises(UsageError, match="an oracle's maps lie on the screen as it is"):
        small("mega", stabilise=2, control=replace(TINY_CONTROL, oracle=OracleConfig(lags=4)))
