"""Games whose memory can be read are played by the protocol of the vector emulator."""

import numpy as np
import pytest
import torch

from megareward.counterfactual.plain_atari import PlainAtari
from megareward.envs.atari import Atari
from megareward.envs.atari_config import AtariConfig


def played(env, n_steps, seed=5):
    """Every step of random play."""
    draw = torch.Generator().manual_seed(1)
    steps = [env.reset(seed)]
    for _ in range(n_steps):
        env.send(torch.randint(env.n_actions, (env.n_envs,), generator=draw))
        steps.append(env.recv())
    env.close()
    return steps


@pytest.mark.parametrize("rom", ["montezuma_revenge", "breakout", "pong", "freeway"])
@pytest.mark.parametrize("skip", [4, 3])
def test_the_first_episode_of_a_seed_is_that_of_the_vector_emulator(rom, skip):
    config = AtariConfig(noop_max=1, frame_skip=skip)
    plain, vector = (played(kind(rom, 3, config, hide_score=True), 130) for kind in (PlainAtari, Atari))
    begun = torch.zeros(3)
    compared = 0
    for one, other in zip(plain, vector, strict=True):
        begun += other.episode_over
        for n in (begun == 0).nonzero()[:, 0]:
            for name in ("frames", "rewards", "terminated", "truncated", "first", "episode_over"):
                assert torch.equal(getattr(one, name)[n], getattr(other, name)[n]), name
            compared += 1
    assert compared > 200


def test_games_follow_each_other_and_a_time_limit_cuts_them():
    config = AtariConfig(max_frames=200, life_loss_is_terminal=False)
    steps = played(PlainAtari("montezuma_revenge", 2, config, hide_score=True), 120)
    over = torch.stack([step.episode_over for step in steps])
    assert torch.equal(torch.stack([step.truncated for step in steps]), over)
    assert over.nonzero()[:, 0].tolist() == [
        t for t in (50, 101) for _ in range(2)
    ]  # 200 / 4, and a step to begin anew
    first = torch.stack([step.first for step in steps])
    assert torch.equal(first[1:], over[:-1])


def test_a_sticky_button_is_pressed_for_longer():
    def frames(sticky):
        config = AtariConfig(noop_max=1, sticky=sticky)
        return np.stack([step.frames for step in played(PlainAtari("breakout", 1, config, hide_score=True), 60)])

    assert np.array_equal(frames(0.0), frames(0.0))
    assert not np.array_equal(frames(0.0), frames(0.9))


def test_the_memory_is_that_of_every_game():
    env = PlainAtari("montezuma_revenge", 2, AtariConfig(), hide_score=True)
    env.reset(0)
    env._emulator.games[1].emulator.ale.setRAM(3, 7)
    assert env.memory.shape == (2, 128)
    assert env.memory[:, 3].tolist() == [1, 7]
