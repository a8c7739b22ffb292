"""Every method of the zoo: it runs, it is a pure function of its config and seed, and resets teach it nothing."""

import dataclasses
import math

import pytest
import torch

from megareward.control.config import LatentConfig
from megareward.envs.interface import BatchedEnv, Step
from megareward.envs.mini import MINI_GAMES, mini_config
from megareward.rewards import find_method
from megareward.rewards.settings import ExtrinsicConfig
from megareward.runs.folder import RunFolder
from megareward.training.run import start
from tests.seams.small_runs import (
    EVERY,
    ITERATIONS,
    QUIET,
    SCORE_FREE,
    TINY_CONTROL,
    N,
    Outcome,
    T,
    assert_same,
    assert_same_tensors,
    run,
    small,
    whole,
)

ONE = N * T
"""Frames of one iteration."""


@pytest.mark.parametrize("method", EVERY)
def test_one_iteration_runs_and_its_metrics_are_finite(method):
    outcome, watched = whole(small(method, frames=ONE))
    assert len(watched.actions) == T
    assert all(len(actions) == N for actions in watched.actions)
    [row] = outcome.metrics
    assert row["frames"] == ONE
    assert all(math.isfinite(number) for number in row.values())


@pytest.mark.parametrize("game", MINI_GAMES)
def test_every_mini_game_can_be_learnt_from_and_its_games_are_written_down(game):
    outcome, _ = whole(small("extrinsic", game=game, env=mini_config(game, max_steps=5), frames=ONE))
    assert len(outcome.scores) == 2 * N  # a game of 5 steps and a reset, twice in 12 steps
    assert all(game["cut"] and game["steps"] == 5 for game in outcome.scores)


@pytest.mark.parametrize("method", EVERY)
def test_the_same_seed_gives_the_same_run_and_another_seed_another(method, tmp_path):
    one, first = whole(small(method))
    two, second = run(small(method), tmp_path / "two")
    assert len(one.metrics) == ITERATIONS
    assert {game["cut"] for game in one.scores} == {True, False}  # ends of both kinds were met
    assert_same(one, two)
    assert first.actions == second.actions
    here, third = whole(small(method, frames=ONE))
    there, fourth = run(small(method, frames=ONE, seed=6), tmp_path / "there")
    assert third.actions != fourth.actions
    policy = [name for name in here.weights if name.startswith("policy.")]
    assert bool(policy) == find_method(method).trains_policy
    assert not policy or any(not torch.equal(here.weights[name], there.weights[name]) for name in policy)


@pytest.mark.parametrize("method", EVERY)
def test_a_method_that_learns_moves_every_weight_and_one_that_does_not_moves_none(method):
    short, long = (whole(small(method, frames=frames))[0].weights for frames in (ONE, ITERATIONS * ONE))
    policy = {name for name in short if name.startswith("policy.")}
    moved = {name for name in policy if not torch.equal(short[name], long[name])}
    row = find_method(method)
    assert moved == (policy if row.trains_policy and row.policy_learns else set())


class PoisonedResets:
    """Another environment whose step into a new episode comes with a wild reward, which nobody earned."""

    def __init__(self, env: BatchedEnv) -> None:
        self.env, self.doses = env, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.env, name)

    def recv(self) -> Step:
        step = self.env.recv()
        self.doses += int(step.first.sum())
        return dataclasses.replace(step, rewards=torch.where(step.first, 1e6, step.rewards))


@pytest.mark.parametrize("method", [name for name in EVERY if name not in SCORE_FREE])
def test_a_reward_at_a_reset_teaches_nobody(method, tmp_path):
    """For the other methods no reward of the game does: that is the flip test."""
    # unclipped: 1e6 should have its full effect if it has any
    reward = {"reward": ExtrinsicConfig(clip="none")} if method == "extrinsic" else {}
    clean, first = whole(small(method, **reward))
    poisoned, second = run(small(method, **reward), tmp_path / "poisoned", PoisonedResets)
    assert second.env.doses >= N
    assert first.actions == second.actions
    assert_same_tensors(clean.weights, poisoned.weights)
    reward_metrics = [[{k: v for k, v in row.items() if k != "score"} for row in o.metrics] for o in (clean, poisoned)]
    assert reward_metrics[0] == reward_metrics[1]


class PoisonedRewards(PoisonedResets):
    """The same poison one step earlier, in a real transition: into the last frame of an episode."""

    def recv(self) -> Step:
        step = self.env.recv()
        return dataclasses.replace(step, rewards=torch.where(step.episode_over, 1e6, step.rewards))


def test_the_poison_is_strong_enough_to_be_noticed_where_it_may_be(tmp_path):
    config = small("extrinsic", reward=ExtrinsicConfig(clip="none"))
    clean, _ = whole(config)
    poisoned, _ = run(config, tmp_path / "poisoned", PoisonedRewards)
    assert any(not torch.equal(clean.weights[name], poisoned.weights[name]) for name in clean.weights)


def test_watching_an_environment_changes_nothing(tmp_path):
    """The instrument of these tests itself."""
    start(small("extrinsic"), tmp_path / "run", **QUIET)
    assert_same(whole(small("extrinsic"))[0], Outcome.of(tmp_path / "run"))


@pytest.mark.parametrize(("flash", "times_told"), [(0.0, 1), (0.5, 0)])
def test_a_screen_that_does_nothing_but_flash_is_told_of_once(flash, times_told, tmp_path, capsys):
    """With 0 any change is a flash."""
    control = dataclasses.replace(TINY_CONTROL, latent=LatentConfig(flash=flash))
    start(small("mega", control=control), tmp_path / "run", tensorboard=False)
    assert capsys.readouterr().err.count("of the steps change most of the screen") == times_told
    shares = [row["control/flashes"] for row in RunFolder(tmp_path / "run").rows("metrics.jsonl")]
    assert all((share > 0.5) == bool(times_told) for share in shares)
