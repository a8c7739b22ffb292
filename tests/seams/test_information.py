"""Direct control as information: the seams of a run whose control models have no attention."""

from dataclasses import replace

import pytest
import torch

from megareward.control.models import ControlModels
from megareward.training.config import TrainConfig
from megareward.training.run import create, resume
from tests.seams.small_runs import (
    ITERATIONS,
    QUIET,
    TINY_CONTROL,
    Outcome,
    PowerCutError,
    Watched,
    assert_same,
    env_of,
    run,
    small,
    stop_at,
    whole,
)
from tests.seams.test_fast_and_plain import fast_collector
from tests.seams.test_flip import assert_nothing_but_the_score_changed

CONTROL = replace(
    TINY_CONTROL,
    adm=replace(TINY_CONTROL.adm, direct="information"),
    latent=replace(TINY_CONTROL.latent, above_chance=True),
)


def config(**changes: object) -> TrainConfig:
    return small("mega", control=replace(CONTROL, **changes))  # type: ignore[arg-type]


def test_a_run_that_is_cut_off_again_and_again_ends_as_if_it_had_not_been(tmp_path):
    path, own = tmp_path / "run", config()
    uninterrupted, _ = whole(own)
    assert not any("lambda" in name for name in uninterrupted.weights)
    create(own, path)
    for iteration in range(ITERATIONS):
        with pytest.raises(PowerCutError):
            resume(path, env=Watched(env_of(own), stop_at(3 * iteration, "power cut")), **QUIET)
        resume(path, minutes=1e-9, **QUIET)
    assert_same(uninterrupted, Outcome.of(path))


def test_flipping_the_games_score_changes_nothing(tmp_path):
    assert_nothing_but_the_score_changed(config(), tmp_path)


@pytest.mark.parametrize("overlap", ["off", "on"])
def test_the_fast_collector_and_the_plain_one_give_the_same_run(overlap, tmp_path, monkeypatch):
    own = config(overlap=overlap)
    plain, _ = whole(own)
    monkeypatch.setattr("megareward.training.loop.make_collector", fast_collector)
    assert_same(plain, run(own, tmp_path / "fast")[0])


def test_a_lagged_copy_knows_what_every_cell_usually_guesses():
    learnt, lagged = (ControlModels(CONTROL, (32, 32), 3, seed=seed) for seed in (0, 1))
    learnt.adm.usual.uniform_(0.1, 0.5)
    with torch.no_grad():
        lagged.copy_from(learnt)
    assert torch.equal(lagged.adm.usual, learnt.adm.usual)
