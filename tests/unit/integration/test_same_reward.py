"""The same frames earn the same reward, whoever's loop they pass through: for every method of the zoo.

Bit for bit where the networks see batches of the same size; elsewhere the last bits of a convolution may differ.
"""

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

import megareward
from megareward.integration.gymnasium_wrapper import IntrinsicRewardWrapper
from tests.unit.integration.tapes import (
    ACTIONS,
    CONTROL,
    NO_ANCHOR,
    REWARDING,
    SPACE,
    N,
    TapeVector,
    by_transition,
    own_loop,
    settings_for,
    tape,
)

T = 11
every_method = pytest.mark.parametrize("method", REWARDING)


def make(method, control=CONTROL, **settings):
    return megareward.make(method, SPACE, ACTIONS, N, **settings_for(method, control, **settings))


def steps_of(vector, n_steps):
    """Steps of a vector environment, with the true successor of each observation."""
    observations, _ = vector.reset()
    for _ in range(n_steps):
        actions = vector.projector.actions()
        now, rewards, terminated, truncated, infos = vector.step(actions)
        following = now.copy()
        for n in np.flatnonzero(terminated | truncated):
            if vector.mode is AutoresetMode.SAME_STEP:
                following[n] = infos["final_obs"][n]
        yield observations, actions, rewards, terminated, truncated, following
        ended = terminated | truncated
        if vector.mode is AutoresetMode.DISABLED and ended.any():
            now, _ = vector.reset(options={"reset_mask": ended})
        observations = now


@every_method
def test_our_own_loop_and_make_agree_over_several_updates_on_a_stream_with_resets(method):
    reels = tape()
    own = own_loop(method, T, CONTROL, reels)
    reward = make(method, autoreset="next_step")
    assert ("control" in own.observers) == (reward.models is not None) == (method != "extrinsic")
    steps = steps_of(TapeVector(reels, AutoresetMode.NEXT_STEP), 4 * T)
    for _ in range(4):
        paid = own.iterate()
        for _ in range(T):
            reward.watch(*next(steps))
        assert torch.equal(reward.compute(), paid)
        if reward.models is not None:
            assert torch.equal(reward.control.g, own.rollout.fields["g"][T])
            assert torch.equal(reward.control.direct, own.rollout.fields["direct"][T])
        reward.update(log_policy=own.rollout.log_policy.numpy())
    assert paid.abs().sum() > 0


def trained(method, control):
    """Our own loop after two rollouts of another tape."""
    own = own_loop(method, T, control, tape(seed=1))
    for _ in range(2):
        own.iterate()
    return own


def learnt_by(own) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor] | None]:
    """The states of its reward and of its control models."""
    [(_, reward)], control = own.rewards.terms, own.observers.get("control")
    return reward.state_dict(), None if control is None else control.models.state_dict()


def load(learnt, rewards, models) -> None:
    (of_reward, of_control), [(_, reward)] = learnt, rewards.terms
    reward.load_state_dict(of_reward)
    if models is not None:
        models.load_state_dict(of_control)


@every_method
def test_every_autoreset_mode_and_our_own_loop_pay_each_transition_the_same(method):
    reels, M = tape(longest=4), 20
    raw = {} if method == "extrinsic" else {"normalise": False}
    loop, learnt = own_loop(method, 40, NO_ANCHOR, reels, **raw), learnt_by(trained(method, NO_ANCHOR))
    load(learnt, loop.rewards, loop.observers["control"].models if "control" in loop.observers else None)
    own = by_transition(loop.iterate().numpy(), loop.rollout.recorded().real.numpy())
    if method != "mega-count":  # on noise every pattern is new
        assert all(len(set(rewards)) > 1 for rewards in own)
    for mode in AutoresetMode:
        autoreset = "next_step" if mode is AutoresetMode.NEXT_STEP else "same_step"
        reward = make(method, NO_ANCHOR, autoreset=autoreset, **raw)
        load(learnt, reward.rewards, reward.models)
        ended = np.zeros(N, bool)
        real = []
        for step in steps_of(TapeVector(reels, mode), 40):
            reward.watch(*step)
            real.append(~ended if mode is AutoresetMode.NEXT_STEP else np.ones(N, bool))
            ended = step[3] | step[4]
        paid = by_transition(reward.compute().numpy(), np.stack(real))
        for n in range(N):
            assert paid[n][:M] == pytest.approx(own[n][:M], abs=1e-6, rel=1e-5), mode


@every_method
@pytest.mark.parametrize("mode", AutoresetMode)
def test_the_gymnasium_wrapper_pays_what_make_computes_through_several_updates(method, mode):
    reels = tape(longest=6)
    raw = {} if method == "extrinsic" else {"normalise": False}
    autoreset = "next_step" if mode is AutoresetMode.NEXT_STEP else "same_step"
    reward = make(method, autoreset=autoreset, **raw)
    settings = settings_for(method, **raw)
    envs = IntrinsicRewardWrapper(TapeVector(reels, mode), method, update_every=T, **settings)
    envs.reset()
    steps = steps_of(TapeVector(reels, mode), 3 * T)
    for _ in range(3):
        paid, scores = [], []
        for _ in range(T):
            step = next(steps)
            reward.watch(*step)
            _, rewards, terminated, truncated, infos = envs.step(envs.env.projector.actions())
            if mode is AutoresetMode.DISABLED and (terminated | truncated).any():
                envs.reset(options={"reset_mask": terminated | truncated})
            paid.append(rewards)
            scores.append((infos["score"] == step[2]).all())
        assert all(scores)
        np.testing.assert_allclose(np.stack(paid), reward.compute().numpy(), rtol=1e-5, atol=1e-6)
        metrics = reward.update()
        assert envs.metrics.keys() == metrics.keys()


@every_method
def test_samples_with_the_six_keys_give_the_same_as_watching_alone(method):
    reels = tape(longest=6)
    reward, alone = make(method), make(method)
    steps = list(steps_of(TapeVector(reels, AutoresetMode.SAME_STEP), T))
    for step in steps:
        reward.watch(*step)
        alone.watch(*step)
    keys = ("observations", "actions", "rewards", "terminateds", "truncateds", "next_observations")
    samples = {key: np.stack([step[i] for step in steps]) for i, key in enumerate(keys)}
    assert torch.equal(reward.compute(samples), alone.compute())
    assert reward.update(samples) == alone.update()


@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
@pytest.mark.parametrize("method", ["rnd", "curiosity", "count", "emp", "extrinsic"])
def test_a_method_without_a_control_map_can_be_given_samples_only(method, autoreset):
    mode = AutoresetMode.NEXT_STEP if autoreset == "next_step" else AutoresetMode.SAME_STEP
    reels = tape(longest=6)
    watched, unwatched = (make(method, autoreset=autoreset, tracks_control=False) for _ in range(2))
    steps = list(steps_of(TapeVector(reels, mode), 3 * T))
    keys = ("observations", "actions", "rewards", "terminateds", "truncateds", "next_observations")
    for start in range(0, 3 * T, T):
        part = steps[start : start + T]
        for step in part:
            watched.watch(*step)
        samples = {key: torch.from_numpy(np.stack([step[i] for step in part])) for i, key in enumerate(keys)}
        assert torch.equal(unwatched.compute(samples), watched.compute())
        assert unwatched.update(samples) == watched.update()
