"""`--deterministic` changes no number on a CPU, is kept in the config, and holds while a run trains or is resumed."""

from dataclasses import replace

import pytest
import torch

from megareward.runs.folder import RunFolder
from megareward.training.config import read_config
from megareward.training.run import resume, start
from tests.seams.small_runs import QUIET, Outcome, Watched, assert_same, env_of, run, small, whole


@pytest.mark.parametrize("method", ["rnd", "mega", "extrinsic"])
def test_on_a_cpu_every_run_is_reproducible_with_it_and_without(method, tmp_path):
    config = small(method)
    assert_same(whole(config)[0], run(replace(config, deterministic=True), tmp_path / "run")[0])
    assert read_config(RunFolder(tmp_path / "run")).deterministic


def test_it_holds_while_the_run_trains_and_while_it_is_resumed(tmp_path):
    held: list[bool] = []
    config = small("extrinsic", deterministic=True)

    def watched() -> Watched:
        return Watched(env_of(config), lambda number: held.append(torch.are_deterministic_algorithms_enabled()))

    start(config, tmp_path / "run", env=watched(), minutes=1e-9, **QUIET)
    resume(tmp_path / "run", env=watched(), **QUIET)
    assert len(held) > 20
    assert all(held)
    assert not torch.are_deterministic_algorithms_enabled()
    assert_same(Outcome.of(tmp_path / "run"), whole(config)[0])
