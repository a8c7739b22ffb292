"""A recording holds what the run's own player saw, did and believed."""

from pathlib import Path

import numpy as np
import pytest
import torch

from megareward.errors import UsageError
from megareward.runs.folder import RunFolder
from megareward.training.config import read_config
from megareward.training.evaluate import Player, newest_tensors
from megareward.training.run import start
from megareward.viewer.recording import record_run
from tests.seams.small_runs import QUIET, small
from tests.unit.viewer.made import T, made

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return start(small("mega"), tmp_path_factory.mktemp("runs") / "mega", **QUIET).path


def test_the_frames_are_those_that_the_runs_own_player_sees(run):
    recording = record_run(run, 40, seed=3, device=CPU)
    folder = RunFolder.open(run)
    player = Player(read_config(folder), newest_tensors(folder, print)[0], 1, 3, CPU)
    seen = [player.begin(), *(player.step() for _ in range(39))]
    assert np.array_equal(recording.frames, np.stack([step.frames[0].numpy() for step in seen]))
    assert recording.first[0]
    assert 1 < recording.n_games == recording.first.sum()  # games of 17 steps at most


def test_the_maps_are_what_eq_10_makes_of_each_other(run):
    recording = record_run(run, 40, device=CPU)
    maps, latent = recording.learnt, read_config(RunFolder.open(run)).control.latent
    inside = ~recording.first
    assert np.allclose(maps.direct[inside].sum(-1), 1, atol=1e-5)
    assert not maps.g[recording.first].any()
    assert not maps.relation[recording.first].any()
    assert np.abs(maps.relation[inside].sum(-1).astype(int) - 100).max() <= 8  # 16 sources, each rounded
    for t in np.flatnonzero(inside):
        passed_on = maps.relation[t] / 100 @ maps.g[t - 1]
        held = np.maximum(passed_on, maps.g[t - 1]) if latent.hold else passed_on
        expected = np.clip(latent.rho * held + maps.direct[t], 0, 1)
        assert np.abs(maps.g[t] - expected).max() < 0.09


def test_the_same_seed_records_the_same_and_random_play_does_something_else(run):
    once, again, other = (record_run(run, 30, seed=s, device=CPU) for s in (1, 1, 2))
    assert np.array_equal(once.frames, again.frames)
    assert np.array_equal(once.learnt.g, again.learnt.g)
    assert not np.array_equal(once.frames, other.frames)
    random = record_run(run, 30, random=True, device=CPU)
    assert random.method == "mega, random play"
    assert random.learnt is not None


def test_a_run_that_tracks_no_control_is_recorded_without_maps(tmp_path):
    path = start(small("extrinsic"), tmp_path / "run", **QUIET).path
    recording = record_run(path, 20, device=CPU)
    assert recording.learnt is None
    assert recording.points is not None


@pytest.mark.parametrize("steps", [1, 20_001])
def test_an_impossible_length_is_refused(run, steps):
    with pytest.raises(UsageError, match=f"--steps is {steps}; it must lie between 2 and 20000"):
        record_run(run, steps, device=CPU)


def test_the_score_begins_again_with_every_game():
    score = made().score
    assert score[0] == 0
    assert list(score[[49, 50, 149, 150, 199, 200, 250]]) == [0, 2, 2, 1, 1, 0, 2]
    points = np.zeros(T, np.float32)
    points[0] = 5
    middle = made(first=np.zeros(T, bool), points=points)  # a recording may begin in the middle of a game
    assert middle.score[0] == 5
    assert middle.n_games == 1


def test_arrays_that_do_not_belong_together_are_refused():
    with pytest.raises(UsageError, match="A recording of 600 frames has 599 entries elsewhere"):
        made(actions=np.zeros(599, np.uint8))
    with pytest.raises(UsageError, match="A map has 12 cells, the grid 4 x 4"):
        made(H=4)
