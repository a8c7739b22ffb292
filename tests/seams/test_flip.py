"""The agent never sees the score: with every reward of the game multiplied by -1, what it learns and does is the same.

Proof by experiment for every method that claims not to use the score, in mini games and in the real emulator.
"""

from typing import Any

import pytest
import torch

from megareward.envs.atari_config import AtariConfig
from megareward.envs.mini import MINI_GAMES, mini_config
from megareward.ppo.config import PPOConfig
from megareward.rewards import find_method
from megareward.training.config import TrainConfig
from tests.seams.small_runs import SCORE_FREE, Outcome, Watched, assert_same_tensors, run, small, whole
from tests.small_envs import FlippedScore


def both(config: TrainConfig, tmp_path) -> tuple[tuple[Outcome, Watched], tuple[Outcome, Watched]]:
    return whole(config), run(config, tmp_path / "flipped", FlippedScore)


def assert_nothing_but_the_score_changed(config: TrainConfig, tmp_path) -> None:
    (plain, first), (flipped, second) = both(config, tmp_path)
    assert first.score > 0, "no points were won or lost: nothing was flipped"
    assert first.actions == second.actions
    assert_same_tensors(plain.tensors, flipped.tensors)  # weights, optimiser, rewards, random states, frames
    assert plain.metrics == [flipped_back(row) for row in flipped.metrics]
    assert plain.scores == [flipped_back(row) for row in flipped.scores]


def flipped_back(row: dict[str, Any]) -> dict[str, Any]:
    return {name: -value if name == "score" else value for name, value in row.items()}


@pytest.mark.parametrize("method", SCORE_FREE)
def test_flipping_the_games_score_changes_nothing_the_agent_learns_or_does(method, tmp_path):
    assert_nothing_but_the_score_changed(small(method), tmp_path)


@pytest.mark.parametrize("game", MINI_GAMES)
def test_the_flip_changes_nothing_in_any_mini_game(game, tmp_path):
    ppo = PPOConfig(minibatches=2, epochs=1, learning_rate=1e-2)
    env = mini_config(game, max_steps=50)
    config = small(
        "frame-change", game=game, env=env, n_envs=3, rollout_steps=32, ppo=ppo, frames=3 * 3 * 32, g_channel="no"
    )
    assert_nothing_but_the_score_changed(config, tmp_path)


@pytest.mark.parametrize(
    ("method", "g_channel"),
    [("random", "auto"), ("frame-change", "no"), pytest.param("mega", "auto", marks=pytest.mark.slow)],
)
def test_the_flip_changes_nothing_in_a_real_atari_game(method, g_channel, tmp_path):
    """Long enough that points are lost; Pong's first ball is missed after some 60 decisions."""
    ppo = PPOConfig(minibatches=2, epochs=1, learning_rate=1e-2)
    pong = {"game": "pong", "env": AtariConfig(threads=1), "frames": 4 * 2 * 20 * 4, "n_envs": 2, "rollout_steps": 20}
    assert_nothing_but_the_score_changed(small(method, ppo=ppo, g_channel=g_channel, **pong), tmp_path)


def test_the_flip_can_be_noticed_a_method_that_uses_the_score_learns_something_else(tmp_path):
    (plain, first), (flipped, second) = both(small("extrinsic"), tmp_path)
    assert first.score > 0
    assert first.actions != second.actions
    assert all(
        not torch.equal(weight, flipped.weights[name])
        for name, weight in plain.weights.items()
        if name.startswith("policy.")
    )


def test_the_flip_bites_at_least_one_method_that_learns():
    assert any(find_method(name).trains_policy for name in SCORE_FREE)
