"""Curiosity: the error of the dynamics in feature space, what trains what, and what can be foreseen."""

import math

import pytest
import torch

from megareward.errors import UsageError
from megareward.reward_stream import RewardStream
from megareward.rewards import METHODS
from megareward.rewards.curiosity import Curiosity
from megareward.rewards.settings import CuriosityConfig
from tests.unit.rewards.recordings import (
    ATARI,
    SMALL,
    A,
    N,
    T,
    assert_computing_changes_nothing,
    assert_resets_alone_teach_nothing,
    assert_resets_do_not_matter,
    assert_resumes,
    copied,
    noise,
    record,
    world,
)

KINDS = ["random", "inverse"]


def curiosity(world, **settings) -> Curiosity:
    return Curiosity(CuriosityConfig(**settings), world)


def obedient(T: int = 11, N: int = 6, n_actions: int = 4, seed: int = 0):
    """A world where action a makes the frame show a bar in place a, and nothing else ever happens."""
    actions = torch.randint(n_actions, (T, N), generator=torch.Generator().manual_seed(seed))
    shown = torch.cat([torch.zeros(1, N, dtype=torch.int64), actions])  # (T+1, N)
    bright = torch.arange(36).expand(T + 1, N, 32, 36) // 8 == shown[..., None, None]
    return record(bright.to(torch.uint8) * 200, actions)


@pytest.mark.parametrize("features", KINDS)
@pytest.mark.parametrize("frame_shape", [SMALL, ATARI])
def test_computing_is_pure_and_learning_resumes_exactly(features, frame_shape):
    def make(world):
        return curiosity(world, features=features, normalise_frames=20, epochs=1, minibatches=2)

    reward = make(world(frame_shape))
    assert_computing_changes_nothing(reward, noise(frame_shape))
    reward.update(noise(frame_shape))
    assert_computing_changes_nothing(reward, noise(frame_shape))
    assert_resumes(make, frame_shape)


@pytest.mark.parametrize("features", KINDS)
def test_frames_behind_a_reset_neither_pay_nor_teach(features):
    assert_resets_do_not_matter(lambda world: curiosity(world, features=features))
    assert_resets_alone_teach_nothing(lambda world: curiosity(world, features=features))


def test_the_reward_is_the_mean_squared_error_of_the_features_of_the_next_frame():
    reward, recorded = curiosity(world()), noise()
    reward.update(noise(seed=1))
    rewards = reward.compute(recorded)
    for t in range(T):
        for n in range(N):
            now, then = reward.look(recorded.frames[t : t + 2, n])
            foreseen = reward.dynamics(now[None], recorded.actions[t, n][None])[0]
            torch.testing.assert_close(rewards[t, n], ((foreseen - then) ** 2).sum() / len(then))


def test_the_dynamics_depend_on_the_action_and_on_the_features():
    reward = curiosity(world())
    features = torch.randn(1, 128, generator=torch.Generator().manual_seed(0)).expand(A, -1)
    foreseen = reward.dynamics(features, torch.arange(A))
    assert len(foreseen.detach().unique(dim=0)) == A
    assert not torch.equal(foreseen, reward.dynamics(2 * features, torch.arange(A)))


def test_random_features_stay_as_they_were_born_and_inverse_features_learn():
    for kind in KINDS:
        reward = curiosity(world(), features=kind)
        before = copied(reward.features.state_dict())
        reward.update(noise())
        moved = [name for name, now in reward.features.state_dict().items() if not torch.equal(before[name], now)]
        assert moved == (list(before) if kind == "inverse" else [])


def test_the_dynamics_loss_never_reaches_the_features():
    reward, recorded = curiosity(world(), features="inverse"), noise()
    now, then = reward.look(recorded.frames[0]), reward.look(recorded.frames[1])
    losses = {name: error.mean() for name, error in reward.errors(now, then, recorded.actions[0]).items()}
    losses["dynamics_loss"].backward(retain_graph=True)
    assert all(weight.grad is None for weight in reward.features.parameters())
    assert all(weight.grad is not None for weight in reward.dynamics.parameters())
    losses["inverse_loss"].backward()
    assert all(weight.grad.any() for weight in reward.features.parameters())


def test_what_an_action_always_does_is_foreseen_and_anything_else_pays():
    reward = curiosity(world(n_envs=6, n_actions=4), learning_rate=1e-3, minibatches=4)
    metrics = [reward.update(obedient(seed=seed)) for seed in range(12)]
    assert metrics[-1]["dynamics_loss"] < 0.1 * metrics[0]["dynamics_loss"]
    assert metrics[-1]["dynamics_loss"] < 0.1 * metrics[-1]["copy_loss"]
    expected = obedient(seed=100)
    surprising = record(expected.frames, (expected.actions + 1) % 4)
    assert reward.compute(surprising).min() > 3 * reward.compute(expected).mean()


def test_inverse_features_learn_to_tell_the_action():
    reward = curiosity(world(n_envs=6, n_actions=4), features="inverse", learning_rate=1e-3, minibatches=4)
    metrics = [reward.update(obedient(seed=seed)) for seed in range(3)]
    assert metrics[-1]["inverse_loss"] < 0.1 * math.log(4)  # chance is ln 4


def test_the_scaling_of_frames_is_fixed_after_the_first_ones():
    reward = curiosity(world(), normalise_frames=20)
    means = []
    for seed in (1, 2, 3):
        reward.update(noise(seed=seed))
        means.append(reward.normaliser.mean.clone())
    assert reward.normaliser.n_seen == 20
    assert not torch.equal(means[0], means[1])  # 13 real frames were not enough
    assert torch.equal(means[1], means[2])


def test_the_stream_follows_the_rule_for_death_and_is_scaled():
    [(stream, _)] = METHODS["curiosity"].build(CuriosityConfig(), world())
    assert stream == RewardStream("curiosity", discount=0.99, episodic=True, normalise=True)
    with pytest.raises(UsageError, match="epochs is 0"):
        CuriosityConfig(epochs=0)
