"""With the real Stable-Baselines3: what reaches the advantages, what the policy sees, and what a saved model keeps."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv

import megareward
from megareward.control.config import ControlConfig
from megareward.envs import score_masks
from megareward.envs.games import resolve_game
from megareward.envs.mini import PongConfig
from megareward.errors import UsageError
from megareward.integration.reward import IntrinsicReward
from megareward.integration.same_step import SameStepMini
from tests.unit.integration.tapes import (
    ACTIONS,
    CONTROL,
    REWARDING,
    SHAPE,
    SPACE,
    N,
    TapeVector,
    settings_for,
    tape,
)
from tests.unit.integration.test_same_reward import steps_of

pytest.importorskip("stable_baselines3", reason='needs the extra: pip install "megareward[sb3]"')

from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.vec_env import VecEnvWrapper, VecFrameStack

from megareward.integration.stable_baselines3 import ControlChannel, HideScore, IntrinsicRewardCallback, VectorAsVecEnv

T, GAMMA, LAMBDA = 11, 0.9, 0.8
ONE_POINT = PongConfig(points=1, max_steps=17)
"""Ends of both kinds within a few steps."""
TINY = replace(CONTROL, W=4)


def tape_vec(reels) -> VectorAsVecEnv:
    return VectorAsVecEnv(TapeVector(reels, AutoresetMode.SAME_STEP, (1, *SHAPE)))


def scripted(reels, env=None, **settings) -> tuple[PPO, list[SimpleNamespace]]:
    """PPO that does what a tape does, and values a frame by its brightness. What `train` would see is written down."""
    env = env or tape_vec(reels)
    projector = env.unwrapped.env.projector
    settings = {"n_steps": T, "batch_size": N * T, "gae_lambda": LAMBDA, "seed": 0, "device": "cpu", **settings}
    model = PPO("MlpPolicy", env, gamma=GAMMA, **settings)
    seen: list[SimpleNamespace] = []

    def value(observations):
        return observations.flatten(1).float().mean(1, keepdim=True) / 100

    def act(observations):
        return torch.from_numpy(projector.actions()), value(observations), torch.zeros(N)

    model.policy.forward, model.policy.predict_values = act, value
    model.train = lambda: seen.append(SimpleNamespace(**copy.deepcopy(vars(model.rollout_buffer))))
    return model, seen


def mini_vec() -> VectorAsVecEnv:
    return VectorAsVecEnv(SameStepMini("mini-pong", N, ONE_POINT))


def ppo(env, **settings) -> PPO:
    settings = {"n_steps": T, "batch_size": N * T, "n_epochs": 2, "seed": 1, "device": "cpu", **settings}
    return PPO("MlpPolicy", env, policy_kwargs={"net_arch": [8]}, **settings)


def weights(model) -> dict[str, torch.Tensor]:
    return {name: x.clone() for name, x in model.policy.state_dict().items()}


def assert_same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> None:
    assert one.keys() == two.keys()
    assert [name for name in one if not torch.equal(one[name], two[name])] == []


@pytest.mark.parametrize("method", REWARDING)
def test_the_callback_pays_what_make_computes_and_keeps_the_value_beyond_a_time_limit(method):
    reels = tape(longest=6)
    model, seen = scripted(reels)
    model.learn(3 * N * T, callback=IntrinsicRewardCallback(method, **settings_for(method)))
    reward = megareward.make(method, SPACE, ACTIONS, N, **settings_for(method))
    steps, cuts = steps_of(TapeVector(reels, AutoresetMode.SAME_STEP), 3 * T), 0
    assert len(seen) == 3
    for buffer in seen:
        beyond = np.zeros((T, N))
        for t in range(T):
            step = next(steps)
            reward.watch(*step)
            *_, cut, last = step
            beyond[t] = cut * GAMMA * last.reshape(N, -1).mean(1) / 100
            cuts += cut.sum()
        np.testing.assert_allclose(buffer.rewards, reward.compute().numpy() + beyond, rtol=1e-5, atol=1e-5)
        reward.update(log_policy=np.stack([log_policy_of(model, seen_then) for seen_then in buffer.observations]))
    assert cuts > 3


def log_policy_of(model, observations) -> np.ndarray:
    """The logarithm of every action's probability, written out."""
    with torch.no_grad():
        policy = model.policy
        features = policy.extract_features(policy.obs_to_tensor(observations)[0], policy.pi_features_extractor)
        return policy.action_net(policy.mlp_extractor.forward_actor(features)).log_softmax(-1).numpy()


def by_hand(rewards, values, starts, last_values, dones) -> np.ndarray:
    """Advantages by their definition: the discounted sum of errors up to the end of the episode or of the rollout."""
    values = np.concatenate([values, last_values[None]]).astype(np.float64)
    over = np.concatenate([starts[1:], dones[None]]).astype(bool)  # the step ends an episode
    advantages = np.zeros(rewards.shape)
    for t in range(len(rewards)):
        for n in range(rewards.shape[1]):
            factor = 1.0
            for k in range(t, len(rewards)):
                future = 0.0 if over[k, n] else GAMMA * values[k + 1, n]
                advantages[t, n] += factor * (rewards[k, n] + future - values[k, n])
                factor *= GAMMA * LAMBDA
                if over[k, n]:
                    break
    return advantages


def test_the_advantages_are_those_of_the_intrinsic_reward_through_episode_ends():
    model, seen = scripted(tape(longest=6))
    callback = IntrinsicRewardCallback("mega", **settings_for("mega"))
    model.learn(2 * N * T, callback=callback)
    for buffer in seen[1:]:  # the last rollout's locals are still there
        last_values = callback.locals["values"].numpy().flatten()
        hand = by_hand(buffer.rewards, buffer.values, buffer.episode_starts, last_values, callback.locals["dones"])
        np.testing.assert_allclose(buffer.advantages, hand, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(buffer.returns, hand + buffer.values, rtol=1e-4, atol=1e-4)
        assert buffer.episode_starts.sum() > N


def test_the_score_can_be_mixed_in_and_is_left_out_by_default():
    reels = tape(longest=6)
    rewards = []
    for settings in ({}, {"score_weight": 2.0}, {"weight": 0.0, "score_weight": 1.0}):
        model, seen = scripted(reels)
        callback = IntrinsicRewardCallback("count", **settings)
        model.learn(N * T, callback=callback)
        rewards.append(seen[0].rewards)
    scores = np.stack([step[2] for step in steps_of(TapeVector(reels, AutoresetMode.SAME_STEP), T)])
    assert np.abs(scores).sum() > 0
    np.testing.assert_allclose(rewards[1] - rewards[0], 2 * scores, atol=1e-4)
    plain, seen = scripted(reels)
    plain.learn(N * T)
    np.testing.assert_allclose(rewards[2], seen[0].rewards, atol=1e-4)  # what SB3 itself stores


class Flipped(VecEnvWrapper):
    """The game's rewards times -1."""

    def reset(self):
        return self.venv.reset()

    def step_wait(self):
        observations, rewards, dones, infos = self.venv.step_wait()
        return observations, -rewards, dones, infos


@pytest.mark.parametrize("algorithm", [PPO, A2C])
def test_flipping_the_games_score_changes_nothing_the_agent_learns(algorithm):
    learnt = []
    for wrap in (lambda env: env, Flipped):
        batch = {"batch_size": N * T} if algorithm is PPO else {}
        model = algorithm("MlpPolicy", wrap(mini_vec()), n_steps=T, seed=3, device="cpu", **batch)
        before = weights(model)
        model.learn(3 * N * T, callback=IntrinsicRewardCallback("mega", control=TINY))
        learnt.append(weights(model))
        assert any(not torch.equal(before[name], learnt[-1][name]) for name in before)
    assert_same(*learnt)


def test_without_the_callback_the_flip_is_noticed():
    """So the test above can fail."""
    one, two = ppo(mini_vec()).learn(3 * N * T), ppo(Flipped(mini_vec())).learn(3 * N * T)
    assert any(not torch.equal(a, b) for a, b in zip(weights(one).values(), weights(two).values(), strict=True))


def test_while_warming_up_the_models_learn_and_the_policy_does_not():
    model = ppo(mini_vec(), ent_coef=0.01)
    before = weights(model)
    callback = IntrinsicRewardCallback("mega", warmup_steps=2 * N * T, control=TINY)
    model.learn(2 * N * T, callback=callback)
    assert_same(before, weights(model))
    assert model.max_grad_norm == 0.5  # what holds it leaves no trace
    assert not model.policy.optimizer.state_dict()["state"]  # nor in Adam's count of steps
    assert callback.metrics["control/transitions"] > 0
    model.learn(N * T, callback=callback, reset_num_timesteps=False)
    assert any(not torch.equal(before[name], x) for name, x in weights(model).items())


def with_channel(training=True):
    env = VecFrameStack(mini_vec(), 4, channels_order="first")
    control = replace(TINY, latent=replace(TINY.latent, above_chance=False))  # or it would see nothing, untrained
    reward = megareward.make("mega", env.observation_space, env.action_space, N, control=control, seed=2)
    return ControlChannel(env, reward, training), reward


def test_the_channel_shows_g_of_the_last_frame_at_an_end_and_nothing_at_a_first_frame():
    env, reward = with_channel()
    assert env.observation_space.shape == (5, 32, 32)
    assert not env.reset()[:, 4].any()
    ends = 0
    for _ in range(40):
        actions = np.full(N, 1)
        observations, _, dones, infos = env.step(actions)
        assert observations.dtype == np.uint8
        assert observations in env.observation_space or observations[0] in env.observation_space
        g = reward.watcher.steps[-1].g_after.view(N, 4, 4).numpy()
        for n in range(N):
            shown = infos[n]["terminal_observation"] if dones[n] else observations[n]
            assert np.array_equal(shown[4, ::8, ::8], np.rint(255 * g[n]))
            if dones[n]:
                assert not observations[n, 4].any()
                ends += 1
        assert observations[:, 4].any() or dones.all()
    assert ends > N


def test_channel_and_callback_share_one_reward_and_every_step_is_watched_once():
    env, reward = with_channel()
    model = ppo(env)
    callback = IntrinsicRewardCallback(reward)
    model.learn(2 * N * T, callback=callback)
    assert not callback.watches
    assert reward.watcher.steps == []
    other = megareward.make("mega", env.venv.observation_space, env.action_space, N, control=TINY)
    with pytest.raises(UsageError, match="another reward"):
        model.learn(N * T, callback=IntrinsicRewardCallback(other))


def test_an_evaluation_beside_the_training_shares_the_models_and_disturbs_nothing():
    env, reward = with_channel()
    model = ppo(env)
    model.learn(N * T, callback=IntrinsicRewardCallback(reward))
    before = reward.state_dict()
    watch = ControlChannel(VecFrameStack(mini_vec(), 4, channels_order="first"), reward.beside(N), training=False)
    observations = watch.reset()
    for _ in range(20):
        observations, *_ = watch.step(model.predict(observations)[0])
    assert observations[:, 4].any()
    assert_same(before, reward.state_dict())


@pytest.mark.parametrize("channel", [False, True])
def test_save_load_and_go_on_equals_not_having_stopped(channel, tmp_path):
    def build():
        env = VecFrameStack(mini_vec(), 4, channels_order="first")
        reward = megareward.make("mega", env.observation_space, env.action_space, N, control=TINY, seed=2)
        return (ControlChannel(env, reward) if channel else env), IntrinsicRewardCallback(reward)

    env, callback = build()
    whole = ppo(env).learn(5 * N * T, callback=callback)
    final = callback.reward.state_dict()

    env, callback = build()
    model = ppo(env).learn(2 * N * T, callback=callback)
    model.save(tmp_path / "half")
    callback.save(tmp_path / "half")
    games = env.unwrapped.env.batch.state_dict()  # these games can be saved; ALE's would begin anew
    stacks = copy.deepcopy((env.venv if channel else env).stacked_obs.stacked_obs)
    torch.rand(3), np.random.rand(3)  # noqa: NPY002  the process that goes on is another one

    env, callback = build()
    env.reset()
    env.unwrapped.env.batch.load_state_dict(games)
    (env.venv if channel else env).stacked_obs.stacked_obs = stacks
    model = PPO.load(tmp_path / "half.zip", env=env, device="cpu", force_reset=False)
    callback.load(tmp_path / "half.zip", model)
    model.learn(3 * N * T, callback=callback, reset_num_timesteps=False)
    assert model.num_timesteps == whole.num_timesteps
    assert_same(weights(whole), weights(model))
    assert_same(final, callback.reward.state_dict())


def test_a_second_learn_resets_the_games_and_the_reward_knows():
    model, callback = ppo(mini_vec()), IntrinsicRewardCallback("mega", control=TINY)
    model.learn(N * T, callback=callback)
    made = callback.reward
    model.learn(N * T, callback=callback)  # reset_num_timesteps: the environments are reset by hand
    assert callback.reward is made
    assert callback.reward.watcher.steps == []


def test_what_does_not_fit_is_refused_in_a_sentence():
    model = DQN("MlpPolicy", mini_vec(), buffer_size=10, device="cpu")
    with pytest.raises(UsageError, match="DQN keeps no rollout"):
        model.learn(1, callback=IntrinsicRewardCallback("mega"))
    few = megareward.make("mega", mini_vec().observation_space, ACTIONS, 2, control=TINY)
    with pytest.raises(UsageError, match="for 2 environments; make it with n_envs=3"):
        ppo(mini_vec()).learn(1, callback=IntrinsicRewardCallback(few))
    late = megareward.make("mega", mini_vec().observation_space, ACTIONS, N, control=TINY, autoreset="next_step")
    with pytest.raises(UsageError, match="autoreset='same_step'"):
        ppo(mini_vec()).learn(1, callback=IntrinsicRewardCallback(late))
    with pytest.raises(UsageError, match="made already; pass rho"):
        IntrinsicRewardCallback(few, rho=1)
    with pytest.raises(UsageError, match="SAME_STEP"):
        VectorAsVecEnv(TapeVector(tape(), AutoresetMode.NEXT_STEP))
    with pytest.raises(UsageError, match=r"callback\.save"):
        IntrinsicRewardCallback("mega", control=TINY).load("nowhere", ppo(mini_vec()))


def test_the_default_settings_serve_mini_games_as_they_are():
    callback = IntrinsicRewardCallback("mega")
    ppo(mini_vec()).learn(N * T, callback=callback)
    assert callback.reward.models.config == control_of_mini_games()


def control_of_mini_games() -> ControlConfig:
    from megareward.training.config import TrainConfig
    from megareward.training.presets import with_preset

    return with_preset(TrainConfig(method="mega", game="mini-pong"), "auto").control


class Screens(VectorEnv):
    """Shows the screens it is given, one per environment, and ends every episode at once."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, shown: np.ndarray) -> None:
        self.shown, self.num_envs = shown, len(shown)
        self.single_observation_space, self.single_action_space = Box(0, 255, shown.shape[1:], np.uint8), ACTIONS

    def reset(self, *, seed=None, options=None):
        return self.shown.copy(), {}

    def step(self, actions):
        ended = np.ones(self.num_envs, bool)
        return self.shown.copy(), np.zeros(self.num_envs), ended, ~ended, {"final_obs": [*self.shown.copy()]}


LAYOUTS = {
    "(h, w)": lambda grey: grey,
    "(1, h, w)": lambda grey: grey[:, None],
    "(h, w, 1)": lambda grey: grey[..., None],
    "(h, w, 3)": lambda grey: np.stack([grey, grey // 2 + 1, grey], -1),
    "(4, h, w)": lambda grey: np.stack([grey] * 4, 1),
    "(h, w, 4)": lambda grey: np.stack([grey] * 4, -1),
    "(h, w, 12)": lambda grey: np.stack([grey] * 12, -1),
    "(4, h, w, 1)": lambda grey: np.stack([grey] * 4, 1)[..., None],
    "(4, 3, h, w)": lambda grey: np.stack([np.stack([grey] * 3, 1)] * 4, 1),
}


@pytest.mark.parametrize("size", [(84, 84), (96, 64), None])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("game", ["Pong", "Seaquest"])
def test_screens_that_differ_in_the_score_alone_look_the_same_in_every_layout(game, layout, size):
    """Native screens, the score drawn over the box, then shrunk by averaging areas as the emulator does it."""
    rom, random = resolve_game(game), np.random.default_rng(0)
    shape = score_masks.game_screen(rom).shape
    one = random.integers(1, 256, shape, dtype=np.uint8)
    other, black = one.copy(), one.copy()
    for x, y, w, h in score_masks.boxes(rom):
        other[y : y + h, x : x + w] = random.integers(1, 256, (h, w))
        black[y : y + h, x : x + w] = 0
    screens = torch.from_numpy(np.stack([one, other, black]))[:, None].double()
    shrunk = torch.nn.functional.interpolate(screens, size or shape, mode="area")[:, 0].round().to(torch.uint8).numpy()
    assert (shrunk[0] != shrunk[1]).any()
    shown = LAYOUTS[layout](shrunk)
    envs = HideScore(VectorAsVecEnv(Screens(shown)), game)
    step = envs.step(np.zeros(3, int))
    for seen in (envs.reset(), step[0], np.stack([info["terminal_observation"] for info in step[3]])):
        assert np.array_equal(seen[0], seen[1])
        hidden = seen[0] != shown[0]
        assert not seen[0][hidden].any()
        reached = shown[0] != shown[2]  # where a black score would darken the frame
        assert hidden[reached].all()
        assert reached.sum() >= 0.9 * hidden.sum()  # and little else


def test_a_score_that_cannot_be_hidden_is_refused():
    with pytest.raises(UsageError, match="no game"):
        HideScore(VectorAsVecEnv(Screens(np.zeros((N, 84, 84), np.uint8))), "pogn")
    with pytest.raises(UsageError, match=r"shape \(84,\)"):
        HideScore(VectorAsVecEnv(Screens(np.zeros((N, 84), np.uint8))), "pong")
    with pytest.raises(UsageError, match="put HideScore below it"):
        HideScore(with_channel()[0], "pong")


def test_the_control_models_get_the_probability_of_every_action_under_the_acting_policy(monkeypatch):
    model = ppo(mini_vec(), n_epochs=1)
    callback = IntrinsicRewardCallback("mega", control=TINY)
    given = []
    update = IntrinsicReward.update
    monkeypatch.setattr(
        IntrinsicReward,
        "update",
        lambda self, samples=None, log_policy=None: (
            given.append((log_policy, model.rollout_buffer.actions.copy(), model.rollout_buffer.log_probs.copy())),
            update(self, samples, log_policy),
        )[1],
    )
    model.learn(2 * N * T, callback=callback)
    assert len(given) == 2
    for log_policy, actions, log_probs in given:
        assert np.allclose(np.exp(log_policy).sum(-1), 1, atol=1e-5)
        chosen = np.take_along_axis(log_policy, actions.reshape(T, N, 1).astype(int), -1)[..., 0]
        np.testing.assert_allclose(chosen, log_probs, atol=1e-5)


def test_probabilities_of_the_wrong_shape_are_refused():
    env, reward = with_channel()
    env.reset()
    env.step(np.full(N, 1))
    with pytest.raises(UsageError, match=r"log_policy is \(1, 2\); it must be finite and \(steps"):
        reward.update(log_policy=np.zeros((1, 2)))
