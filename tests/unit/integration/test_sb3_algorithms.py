"""Every on-policy algorithm of Stable-Baselines3 and sb3-contrib gets the advantages that are computed by hand here."""

import copy
import importlib
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import megareward
from megareward.errors import RunError, UsageError
from megareward.integration.gymnasium_wrapper import IntrinsicRewardWrapper
from megareward.integration.reward import IntrinsicReward
from megareward.integration.same_step import SameStepMini
from tests.unit.integration.tapes import N

pytest.importorskip("stable_baselines3", reason='needs the extra: pip install "megareward[sb3]"')

from stable_baselines3 import DQN
from stable_baselines3.common.vec_env import VecEnvWrapper, VecNormalize

from megareward.integration.stable_baselines3 import ControlChannel, IntrinsicRewardCallback, VectorAsVecEnv
from tests.unit.integration.test_stable_baselines3 import (
    GAMMA,
    LAMBDA,
    ONE_POINT,
    TINY,
    T,
    assert_same,
    by_hand,
    mini_vec,
    ppo,
    weights,
    with_channel,
)

MASK = np.array([True, False, True])
ALGORITHMS = {
    "PPO": "stable_baselines3",
    "A2C": "stable_baselines3",
    "TRPO": "sb3_contrib",
    "RecurrentPPO": "sb3_contrib",
    "MaskablePPO": "sb3_contrib",
}
every_algorithm = pytest.mark.parametrize("name", ALGORITHMS)


class Masked(SameStepMini):
    def action_masks(self):
        return MASK


class Recorder(VecEnvWrapper):
    """Keeps every step as SB3 saw it."""

    def reset(self):
        self.steps = []
        self.last = self.venv.reset().copy()
        return self.last.copy()

    def step_wait(self):
        observations, rewards, dones, infos = self.venv.step_wait()
        after = observations.copy()
        for n in np.flatnonzero(dones):
            after[n] = infos[n]["terminal_observation"]
        cut = np.array([info["TimeLimit.truncated"] for info in infos])
        self.steps.append((self.last, self.actions, rewards.copy(), dones & ~cut, cut, after))
        self.last = observations.copy()
        return observations, rewards, dones, infos

    def step_async(self, actions):
        self.actions = actions.copy()
        self.venv.step_async(actions)


def build(name, env=None, **settings):
    algorithm = getattr(pytest.importorskip(ALGORITHMS[name]), name)
    env = env or VectorAsVecEnv(Masked("mini-pong", N, ONE_POINT))
    network = {"net_arch": [8]}
    if name == "RecurrentPPO":
        network["lstm_hidden_size"] = 8
    if name != "A2C":
        settings["batch_size"] = N * T
    policy = "MlpLstmPolicy" if name == "RecurrentPPO" else "MlpPolicy"
    settings = {"n_steps": T, "gamma": GAMMA, "gae_lambda": LAMBDA, "seed": 1, "device": "cpu", **settings}
    return algorithm(policy, env, policy_kwargs=network, **settings)


def values_by_hand(model, steps, last) -> tuple[np.ndarray, np.ndarray]:
    """The policy's values of all observations, the newest included, and of the frames that the steps truly lead to. A
    policy with a memory reads every episode from its beginning."""
    policy = model.policy
    observed = [*(step[0] for step in steps), last]
    starts = [np.ones(N, bool), *(step[3] | step[4] for step in steps)]
    recurrent = hasattr(policy, "lstm_actor")
    memory, values, following = copy.deepcopy(getattr(model, "_last_lstm_states", None)), [], []
    if recurrent:
        memory = type(memory)(*(tuple(torch.zeros_like(x) for x in pair) for pair in memory))
    with torch.no_grad():
        for t, observations in enumerate(observed):
            seen, opens = torch.from_numpy(observations), torch.from_numpy(starts[t]).float()
            if recurrent:
                _, value, _, memory = policy(seen, memory, opens)
                then = [memory.vf, torch.zeros(N)]
            else:
                value, then = policy.predict_values(seen), []
            values.append(value.numpy().flatten())
            if t < len(steps):
                following.append(policy.predict_values(torch.from_numpy(steps[t][5]), *then).numpy().flatten())
    return np.stack(values), np.stack(following)


@every_algorithm
def test_rewards_and_advantages_are_those_computed_by_hand(name):
    env = Recorder(VectorAsVecEnv(Masked("mini-pong", N, ONE_POINT)))
    model, seen = build(name, env), []
    model.train = lambda: seen.append(SimpleNamespace(**copy.deepcopy(vars(model.rollout_buffer))))
    model.learn(3 * N * T, callback=IntrinsicRewardCallback("curiosity", seed=4))
    reward = megareward.make("curiosity", env.observation_space, env.action_space, N, seed=4)
    values, following = values_by_hand(model, env.steps, env.last)
    assert len(seen) == 3
    cuts = 0
    for i, buffer in enumerate(seen):
        played = slice(i * T, (i + 1) * T)
        steps = env.steps[played]
        for step in steps:
            reward.watch(*step)
        cut = np.stack([step[4] for step in steps])
        expected = reward.compute().numpy() + GAMMA * cut * following[played]
        reward.update()
        np.testing.assert_allclose(buffer.rewards, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(buffer.values, values[played], rtol=1e-5, atol=1e-5)
        over = np.stack([step[3] | step[4] for step in steps])
        starts = np.concatenate([np.zeros((1, N), bool), over[:-1]])  # of the first step nothing depends
        hand = by_hand(expected, values[played], starts, values[(i + 1) * T], over[-1])
        np.testing.assert_allclose(buffer.advantages, hand, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(buffer.returns, hand + values[played], rtol=1e-5, atol=1e-5)
        cuts += cut.sum()
    assert cuts > 0


@every_algorithm
def test_while_warming_up_no_algorithm_learns_and_afterwards_every_one_does(name):
    model = build(name)
    before = weights(model)
    callback = IntrinsicRewardCallback("count", warmup_steps=2 * N * T)
    model.learn(2 * N * T, callback=callback)
    assert_same(before, weights(model))
    assert "train" not in vars(model)  # what holds it leaves no trace
    model.learn(N * T, callback=callback, reset_num_timesteps=False)
    assert any(not torch.equal(before[key], x) for key, x in weights(model).items())


@every_algorithm
def test_the_control_models_get_the_probabilities_that_the_actions_were_drawn_from(name, monkeypatch):
    model, given, update = build(name), [], IntrinsicReward.update

    def noting(self, samples=None, log_policy=None):
        given.append((log_policy, copy.deepcopy(model.rollout_buffer)))
        return update(self, samples, log_policy)

    monkeypatch.setattr(IntrinsicReward, "update", noting)
    model.learn(2 * N * T, callback=IntrinsicRewardCallback("mega", control=TINY))
    assert len(given) == 2
    for log_policy, buffer in given:
        chosen = np.take_along_axis(log_policy, buffer.actions.reshape(T, N, 1).astype(int), -1)[..., 0]
        np.testing.assert_allclose(chosen, buffer.log_probs, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(np.exp(log_policy).sum(-1), 1, atol=1e-5)
        possible = np.exp(log_policy) > 0
        assert (possible == MASK).all() if name == "MaskablePPO" else possible.all()


def test_frames_that_are_normalised_while_they_are_watched_are_refused():
    with pytest.raises(UsageError, match=r"VecNormalize\(norm_obs=True\) changes the frames"):
        ppo(VecNormalize(mini_vec())).learn(1, callback=IntrinsicRewardCallback("count"))
    env, reward = with_channel()
    with pytest.raises(UsageError, match=r"norm_obs=False"):
        ControlChannel(VecNormalize(env.venv), reward)
    for fine in (VecNormalize(mini_vec(), norm_obs=False), VecNormalize(env, norm_reward=False)):
        callback = IntrinsicRewardCallback(reward if fine.venv is env else "count")
        ppo(fine).learn(N * T, callback=callback)


def test_what_cannot_be_saved_or_loaded_is_told_in_a_sentence(tmp_path):
    callback = IntrinsicRewardCallback("count")
    with pytest.raises(UsageError, match=r"save\(\) came before learn\(\)"):
        callback.save(tmp_path / "early")
    model = ppo(mini_vec()).learn(N * T, callback=callback)
    file = callback.save(tmp_path / "model")
    whole = file.read_bytes()
    for cut in (0, 7, 100, len(whole) - 1):
        file.write_bytes(whole[:cut])
        with pytest.raises(RunError, match=r"model\.megareward\.safetensors is damaged or cut off"):
            callback.load(tmp_path / "model", model)
    other = importlib.import_module("safetensors.torch").save({"weights": torch.zeros(3)})
    file.write_bytes(other)
    with pytest.raises(UsageError, match=r"lacks 'random\.torch'; it was not written by callback\.save"):
        callback.load(tmp_path / "model", model)
    file.write_bytes(whole)
    callback.load(tmp_path / "model", model)


def test_dqn_learns_from_rewards_that_are_paid_as_they_are_stored():
    games = SameStepMini("mini-pong", N, ONE_POINT)
    model = DQN("MlpPolicy", VectorAsVecEnv(games), buffer_size=10, device="cpu")
    with pytest.raises(UsageError, match=r"DQN keeps no rollout.*VectorAsVecEnv"):
        model.learn(1, callback=IntrinsicRewardCallback("rnd"))
    paying = IntrinsicRewardWrapper(games, "curiosity", update_every=8, settle_steps=4, seed=0)
    env = Recorder(VectorAsVecEnv(paying))
    model = DQN("MlpPolicy", env, buffer_size=60 * N, learning_starts=10, seed=0, device="cpu")
    model.learn(40 * N)
    buffer = model.replay_buffer
    assert buffer.pos == len(env.steps)
    ends = 0
    for t, (before, _, rewards, terminated, cut, after) in enumerate(env.steps):
        assert np.array_equal(buffer.observations[t], before)
        assert np.array_equal(buffer.next_observations[t], after)  # the true last frame of an episode
        np.testing.assert_allclose(buffer.rewards[t], rewards)
        ends += (terminated | cut).sum()
    assert ends > 0
    assert buffer.rewards[10 : buffer.pos].any()
    assert paying.metrics["curiosity/dynamics_loss"] > 0
