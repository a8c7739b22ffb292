"""PPO learns: a task that one look solves, and a game that takes a minute."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from megareward.ppo.config import PPOConfig
from megareward.training.config import TrainConfig
from megareward.training.evaluate import play
from megareward.training.loop import Trainer
from megareward.training.presets import with_preset
from megareward.training.saving import tensors_of
from tests.small_envs import IdentityEnv

CPU = torch.device("cpu")

pytestmark = pytest.mark.learning


def train(trainer: Trainer) -> list[float]:
    """To the end of the config; the scores of all games on the way."""
    trainer.begin()
    scores: list[float] = []
    while trainer.iteration < trainer.config.iterations:
        scores += [episode.score for episode in trainer.iterate()[1]]
    return scores


@pytest.mark.parametrize("seed", [0, 1])
def test_ppo_solves_the_one_step_identity_task(seed):
    """The frame shows which of four actions is right; guessing is right once in four."""
    ppo = PPOConfig(minibatches=4, epochs=4, learning_rate=3e-3, clip=0.2, clip_decays=False)
    config = TrainConfig(method="extrinsic", frames=2560, seed=seed, n_envs=16, rollout_steps=16, ppo=ppo)
    scores = train(Trainer(config, CPU, IdentityEnv(n_envs=16, n_actions=4)))
    assert np.mean(scores[:100]) < 0.6
    assert np.mean(scores[-200:]) > 0.95


def test_ppo_with_the_score_as_reward_beats_random_play_at_mini_pong_by_a_wide_margin():
    """Games go to 5 points, so scores lie in [-5, 5]; random play loses about 4 : 1."""
    config = with_preset(TrainConfig(method="extrinsic", game="mini-pong", frames=64_000, seed=0, device="cpu"), "mini")
    trainer = Trainer(config, CPU)
    train(trainer)
    games = play(replace(config, method="random", reward=None), None, 32, device=CPU)
    at_random = np.mean([game.score for game in games])
    learnt = np.mean([game.score for game in play(config, tensors_of(trainer), 32, device=CPU)])
    assert at_random < -2.0
    assert learnt > 0.5
    assert learnt > at_random + 3.0
