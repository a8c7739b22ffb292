"""morel and oomdp: while they play at random the score teaches them nothing; afterwards it does."""

import pytest
import torch

from tests.seams.small_runs import ITERATIONS, N, T, run, small
from tests.small_envs import FlippedScore

METHODS = ("morel", "oomdp")


@pytest.mark.parametrize("method", METHODS)
def test_the_warm_up_does_without_the_score(method, tmp_path):
    config = small(method, warmup_steps=ITERATIONS * N * T)
    (one, first), (two, second) = run(config, tmp_path / "one"), run(config, tmp_path / "two", FlippedScore)
    assert first.score > 0
    assert first.actions == second.actions
    learnt = [name for name in one.weights if name.startswith(("policy.", "auxiliary.", "observer.", "optimiser."))]
    assert learnt
    assert all(torch.equal(one.weights[name], two.weights[name]) for name in learnt)


@pytest.mark.parametrize("method", METHODS)
def test_afterwards_the_score_counts(method, tmp_path):
    config = small(method, frames=3 * ITERATIONS * N * T)
    (_, first), (_, second) = run(config, tmp_path / "one"), run(config, tmp_path / "two", FlippedScore)
    assert first.actions[:T] == second.actions[:T]
    assert first.actions != second.actions


def test_morels_trunk_learns_in_the_warm_up_and_its_heads_wait_for_the_score(tmp_path):
    config = small("morel", warmup_steps=ITERATIONS * N * T)
    short, _ = run(small("morel", frames=N * T), tmp_path / "short")
    long, _ = run(config, tmp_path / "long")
    moved = {name for name in long.weights if not torch.equal(long.weights[name], short.weights[name])}
    assert {name for name in long.weights if name.startswith("policy.trunk")} <= moved
    assert not {name for name in moved if "action_head" in name or "value_head" in name}
    assert all("loss/auxiliary" in row for row in long.metrics)
