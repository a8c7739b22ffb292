"""The flows of RLeXplore's tutorials, with our classes in place of theirs and Gymnasium 1 below them."""

import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorWrapper

import megareward
from megareward.envs.gymnasium_adapter import GymnasiumVector
from megareward.envs.mini import PongConfig
from megareward.envs.mini.games import make_mini
from megareward.errors import UsageError
from megareward.integration.rlexplore import RND, Count, Curiosity, Dir, Fabric, Mega
from megareward.integration.same_step import SameStepMini
from tests.unit.integration.tapes import CONTROL, TapeVector, tape
from tests.unit.integration.test_same_reward import steps_of

N, T = 2, 12
KEYS = ("observations", "actions", "rewards", "terminateds", "truncateds", "next_observations")
SHORT = PongConfig(points=1, max_steps=7)
every_kind = pytest.mark.parametrize("kind", [Mega, Dir, RND, Curiosity, Count])


class Noise(gymnasium.Env):
    """Stacks of noise from 0 to 1; now and then an episode is terminated and truncated at once."""

    observation_space, action_space = Box(0, 1, (4, 84, 84)), Discrete(7)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.random((4, 84, 84), np.float32), {}

    def step(self, action):
        ended = bool(self.np_random.random() < 0.2)
        return self.np_random.random((4, 84, 84), np.float32), 0.0, ended, ended, {}


def small(kind) -> dict:
    return (
        {"control": megareward.control.config.mini(megareward.control.config.ControlConfig())} if kind is Mega else {}
    )


class AsTensors(VectorWrapper):
    def reset(self, **options):
        observations, infos = self.env.reset(**options)
        return torch.from_numpy(observations.copy()), infos

    def step(self, actions):
        *step, infos = self.env.step(actions.numpy())
        return *(torch.from_numpy(np.array(x)) for x in step), infos


def noise():
    return AsTensors(SyncVectorEnv([Noise] * N))  # resets on the next step, as it says itself


def played(envs, irs, after_each=None):
    """T random steps, watched; as samples of tensors."""
    seen = {key: [] for key in KEYS}
    observations, _ = envs.reset(seed=0)
    for t in range(T):
        actions = torch.tensor([t % 7, (t + 3) % 7])
        following, rewards, terminateds, truncateds, _ = envs.step(actions)
        step = (observations, actions, rewards, terminateds, truncateds, following)
        irs.watch(**dict(zip(KEYS, step, strict=True)))
        for key, value in zip(KEYS, step, strict=True):
            seen[key].append(value.float())
        if after_each:
            after_each({key: value[-1][None] for key, value in seen.items()})
        observations = following
    return {key: torch.stack(value) for key, value in seen.items()}


@pytest.mark.parametrize("kind", [Mega, RND, Curiosity])
def test_quick_start_a_rollout_is_watched_then_computed_and_learnt_from(kind):
    envs = noise()
    irs = kind(envs, "cpu", **small(kind))
    assert irs.watcher.next_step
    samples = played(envs, irs)
    rewards = irs.compute(samples=samples)
    assert rewards.shape == (T, N)
    assert irs.metrics
    assert not irs.watcher.steps


@pytest.mark.parametrize("kind", [Mega, RND, Curiosity])
def test_quick_start_each_step_is_computed_alone_and_the_update_comes_later(kind):
    envs, paid = noise(), []
    irs = kind(envs, "cpu", rwd_norm_type="none", **small(kind))
    samples = played(envs, irs, lambda step: paid.append(irs.compute(samples=step, sync=False)))
    assert all(one.shape == (1, N) for one in paid)
    whole = kind(envs, "cpu", rwd_norm_type="none", **small(kind))
    played(envs, whole)
    torch.testing.assert_close(torch.cat(paid), whole.compute(samples, sync=False), rtol=1e-4, atol=1e-5)
    assert irs.metrics == {}
    irs.update(samples=samples)
    assert irs.metrics
    whole = kind(envs, "cpu", **small(kind))
    with pytest.raises(UsageError, match="samples are not what was watched"):
        played(envs, whole, lambda step: whole.compute({**step, "actions": 6 - step["actions"]}, sync=False))


def test_hybrid_rewards_are_combined_in_a_fabric():
    class TwoMixed(Fabric):
        def compute(self, samples, sync):
            one, two = super().compute(samples, sync)
            return one + two

    envs = noise()
    irs = TwoMixed(RND(envs, "cpu"), Count(envs, "cpu"))
    samples = played(envs, irs)
    expected = [reward.reward.compute(samples) for reward in irs.rewards]
    torch.testing.assert_close(irs.compute(samples, True), expected[0] + expected[1])
    assert all(reward.metrics for reward in irs.rewards)
    later = TwoMixed(*(kind(envs, "cpu") for kind in (RND, Count)))
    later.update(played(envs, later))
    assert all(reward.metrics for reward in later.rewards)
    assert (irs.device, irs.n_envs, irs.batch_size) == (torch.device("cpu"), N, 256)
    with pytest.raises(UsageError, match="two or more"):
        Fabric(RND(envs, "cpu"))


@every_kind
def test_options_and_attributes_of_theirs(kind):
    envs = SameStepMini("mini-pong", N)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        irs = kind(
            envs, "cpu", 0.5, 0.1, 0.9, "none", "rms", latent_dim=64, lr=0.01, batch_size=32, encoder_model="mnih"
        )
    assert len(caught) == 1
    learns = kind in (RND, Curiosity)
    without = f"obs_norm_type, latent_dim, {'' if learns else 'lr, '}encoder_model"
    assert str(caught[0].message).startswith(f"{without}: without effect")
    assert not learns or irs.settings.learning_rate == 0.01
    assert irs.settings.discount == 0.9
    assert not irs.settings.normalise
    assert (irs.batch_size, irs.obs_shape, irs.n_envs, irs.weight) == (32, (1, 32, 32), N, 0.5)
    assert irs.observation_space == envs.single_observation_space
    assert irs.action_space == envs.single_action_space
    steps = list(steps_of_mini(envs, 4))
    for step in steps:
        irs.watch(*step)
    raw = irs.reward.compute()
    torch.testing.assert_close(irs.compute(samples_of(steps)), 0.5 * 0.9 * raw)
    assert irs.weight == pytest.approx(0.45)
    for step in steps_of_mini(envs, 1, seed=1):
        irs.restart()
        irs.watch(*step)
        with pytest.raises(UsageError, match="samples lack 'rewards'"):
            irs.compute({key: x for key, x in samples_of([step]).items() if key != "rewards"}, sync=False)
    with pytest.raises(UsageError, match="rwd_norm_type is 'minmax'"):
        kind(envs, rwd_norm_type="minmax")


def steps_of_mini(envs, n_steps, seed=0):
    """Steps of a mini game that resets within the step."""
    observations, _ = envs.reset(seed=seed)
    random = np.random.default_rng(seed)
    for _ in range(n_steps):
        actions = random.integers(0, 3, N)
        following, rewards, terminated, truncated, infos = envs.step(actions)
        after = following.copy()
        for n in np.flatnonzero(terminated | truncated):
            after[n] = infos["final_obs"][n]
        yield observations, actions, rewards, terminated, truncated, after
        observations = following


def samples_of(steps):
    return {key: torch.as_tensor(np.stack([step[i] for step in steps])) for i, key in enumerate(KEYS)}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("game", ["mini-pong", "mini-breakout"])
def test_cleanrl_flags_of_the_step_before_are_warned_of_where_resets_come_on_the_next_step(game, watched, late):
    """As CleanRL stores them: dones[t] says whether the step before t ended an episode. Right flags are fine."""
    envs = GymnasiumVector(make_mini(game, N))
    irs, steps, dones = RND(envs, "cpu"), [], np.zeros(N, bool)
    envs.action_space.seed(3)
    observations, _ = envs.reset(seed=3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for t in range(700):
            actions = envs.action_space.sample()
            following, rewards, terminated, truncated, _ = envs.step(actions)
            flags = (dones, dones) if late else (terminated, truncated)
            step = (observations, actions, rewards, *flags, following)
            steps.append(step)
            if watched:
                irs.watch(*step)
            dones, observations = terminated | truncated, following
            if t % 350 == 349:
                irs.compute(samples_of(steps))
                steps = []
    told = [str(w.message) for w in caught]
    assert all("look like those of the step before" in message for message in told)
    assert bool(told) == late


def test_samples_with_the_flags_of_the_step_before_are_read_with_those_that_were_watched():
    """As SB3's buffer has them: episode_starts."""
    envs = TapeVector(tape(longest=4), AutoresetMode.SAME_STEP)
    steps = list(steps_of(envs, T))
    rewards = []
    for late in (False, True):
        irs = Mega(envs, "cpu", control=CONTROL)
        for step in steps:
            irs.watch(*step)
        samples = samples_of(steps)
        if late:
            starts = torch.cat([torch.ones(1, 3), (samples["terminateds"] | samples["truncateds"])[:-1].float()])
            samples |= {"terminateds": starts, "truncateds": starts}
            with pytest.warns(UserWarning, match="those that were watched are taken instead"):
                rewards.append(irs.compute(samples))
        else:
            rewards.append(irs.compute(samples))
    assert torch.equal(*rewards)


# Stable-Baselines3 ---------------------------------------------------------------------------------------------------


def on_policy(irs):
    """The shape of their callback: one flag for both ends, observations after a reset, advantages topped up."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Callback(BaseCallback):
        def _on_step(self):
            now = self.locals["obs_tensor"]
            given = [torch.as_tensor(self.locals[name]) for name in ("actions", "rewards", "dones", "new_obs")]
            actions, rewards, dones, following = given
            irs.watch(now, actions, rewards, dones, dones, following)
            return True

        def _on_rollout_end(self):
            buffer = self.model.rollout_buffer
            observations = torch.as_tensor(buffer.observations)
            following = torch.cat([observations[1:], torch.as_tensor(self.locals["new_obs"])[None]])
            starts = torch.as_tensor(buffer.episode_starts)
            values = (observations, buffer.actions, buffer.rewards, starts, starts, following)
            self.paid = irs.compute({key: torch.as_tensor(x) for key, x in zip(KEYS, values, strict=True)}, sync=True)
            buffer.advantages += self.paid.numpy()
            buffer.returns += self.paid.numpy()

    return Callback()


@pytest.mark.parametrize("kind", [Mega, RND])
@pytest.mark.filterwarnings("ignore:At an episode's end", "ignore:.*those that were watched are taken instead")
def test_their_callback_for_on_policy_algorithms_of_sb3_runs(kind):
    sb3 = pytest.importorskip("stable_baselines3")
    from megareward.integration.stable_baselines3 import VectorAsVecEnv

    envs = VectorAsVecEnv(SameStepMini("mini-pong", N, SHORT))
    irs = kind(envs, device="cpu")
    callback = on_policy(irs)
    model = sb3.PPO("MlpPolicy", envs, n_steps=T, batch_size=N * T, n_epochs=1, device="cpu")
    model.learn(3 * N * T, callback=callback)
    assert callback.paid.shape == (T, N)
    assert irs.global_step == 3
    assert irs.metrics


def off_policy(irs):
    """The shape of theirs for replay buffers: a reward is added as it is stored, the update draws from the buffer."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Callback(BaseCallback):
        updates = 0

        def _on_step(self):
            given = [torch.as_tensor(self.locals[name]) for name in ("actions", "rewards", "dones", "new_obs")]
            actions, rewards, dones, following = given
            step = (torch.as_tensor(self.model._last_obs), actions, rewards, dones, dones, following)
            irs.watch(*step)
            paid = irs.compute({key: x[None] for key, x in zip(KEYS, step, strict=True)}, sync=False)
            self.locals["rewards"] += paid.numpy()[0]
            if self.model.replay_buffer.pos:
                drawn = self.model.replay_buffer.sample(irs.batch_size)
                samples = {
                    "observations": drawn.observations[:, None],
                    "actions": drawn.actions[:, None],
                    "rewards": drawn.rewards,
                    "terminateds": drawn.dones,
                    "truncateds": drawn.dones,
                    "next_observations": drawn.next_observations[:, None],
                }
                irs.update(samples)
                self.updates += 1
            return True

    return Callback()


@pytest.mark.parametrize("kind", [RND, Curiosity, Count])
@pytest.mark.filterwarnings("ignore:At an episode's end")
def test_their_callback_for_off_policy_algorithms_of_sb3_runs_where_there_is_no_map(kind):
    sb3 = pytest.importorskip("stable_baselines3")
    from megareward.integration.stable_baselines3 import VectorAsVecEnv

    envs = VectorAsVecEnv(SameStepMini("mini-pong", N, SHORT))
    irs = kind(envs, device="cpu", batch_size=16, rwd_norm_type="none")
    callback = off_policy(irs)
    model = sb3.DQN("MlpPolicy", envs, buffer_size=100, learning_starts=5, device="cpu", seed=0)
    model.learn(20 * N, callback=callback)
    assert callback.updates == 19
    assert irs.metrics
    assert len(irs.watcher.steps) <= 1
    assert model.replay_buffer.rewards[5:20].all()
    batch = {key: x.flatten(0, 1)[:, None] for key, x in samples_of(list(steps_of_mini(envs.env, 4))).items()}
    with (
        pytest.warns(UserWarning, match="learns nothing from a replay buffer"),
        pytest.raises(UsageError, match="needs every step in its order"),
    ):
        Mega(envs).update(batch)


def test_a_replayed_batch_teaches_what_the_same_transitions_teach_in_order():
    steps = list(steps_of_mini(SameStepMini("mini-pong", N, SHORT), T))
    one, two = (megareward.make("count", SameStepMini("mini-pong", N)) for _ in range(2))
    one.update(samples_of(steps))
    mixed = torch.randperm(T * N, generator=torch.Generator().manual_seed(0))
    two.replay({key: x.flatten(0, 1)[mixed][:, None] for key, x in samples_of(steps).items()})
    for name, x in one.rewards.terms[0].reward.state_dict().items():
        assert torch.equal(x, two.rewards.terms[0].reward.state_dict()[name])
    assert two.rewards.scales[0].count == 0
