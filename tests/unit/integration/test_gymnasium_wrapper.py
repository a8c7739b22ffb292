"""The Gymnasium wrapper: Gymnasium's own checks, the score, g as a channel, and real vector environments."""

import subprocess
import sys
import warnings
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.utils import env_checker, passive_env_checker
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import megareward
from megareward.control.config import LatentConfig
from megareward.envs.gymnasium_adapter import GymnasiumVector
from megareward.envs.mini import PongConfig
from megareward.envs.mini.games import make_mini
from megareward.errors import UsageError
from megareward.integration.gymnasium_wrapper import IntrinsicRewardWrapper
from megareward.integration.same_step import SameStepMini
from tests.unit.integration.tapes import ACTIONS, CONTROL, SHAPE, SPACE, H, N, TapeVector, W, settings_for, tape

ONE_POINT = PongConfig(points=1, max_steps=17)
MEGA = {"control": CONTROL, "seed": 3}
every_mode = pytest.mark.parametrize("mode", AutoresetMode)
pytestmark = pytest.mark.filterwarnings("error::UserWarning")


class Dots(gymnasium.Env):
    """A frame of random dots; an episode of 4 steps, every other one cut by a time limit."""

    observation_space, action_space = SPACE, ACTIONS

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.number = 0, getattr(self, "number", 0) + 1
        return self._frame(), {}

    def step(self, action):
        self.t += 1
        ended = self.t == 4
        return (
            self._frame(),
            float(action),
            ended and self.number % 2 == 0,
            ended and self.number % 2 == 1,
            {"t": self.t},
        )

    def _frame(self):
        return self.np_random.integers(0, 256, SHAPE, dtype=np.uint8)


def dots(autoreset, **options) -> IntrinsicRewardWrapper:
    vector = SyncVectorEnv([Dots] * N, autoreset_mode=autoreset)
    return IntrinsicRewardWrapper(vector, "mega", **{**MEGA, **options})


def play(envs, n_steps, seed=8):
    """Random play; whoever ended is reset by hand where nobody else does it."""
    envs.action_space.seed(2)
    answers = [envs.reset(seed=seed)]
    for _ in range(n_steps):
        answers.append(envs.step(envs.action_space.sample()))
        ended = answers[-1][2] | answers[-1][3]
        if envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.any():
            answers.append(envs.reset(options={"reset_mask": ended}))
    return answers


@every_mode
@pytest.mark.parametrize("g_channel", [False, True])
def test_it_passes_gymnasiums_checks_of_spaces_and_resets(mode, g_channel):
    envs = dots(mode, g_channel=g_channel)
    for observation_space in (envs.single_observation_space, envs.observation_space):
        passive_env_checker.check_observation_space(observation_space)
        env_checker.check_space_limit(observation_space, "observation")
    for action_space in (envs.single_action_space, envs.action_space):
        passive_env_checker.check_action_space(action_space)
    env_checker.check_seed_deprecation(envs)
    env_checker.check_reset_return_info_deprecation(envs)
    env_checker.check_reset_return_type(envs)
    passive_env_checker.env_reset_passive_checker(envs, seed=3)


@every_mode
@pytest.mark.parametrize("g_channel", [False, True])
def test_steps_are_deterministic_and_fit_the_spaces(mode, g_channel):
    runs = [play(dots(mode, g_channel=g_channel, update_every=6), 15) for _ in range(2)]
    assert env_checker.data_equivalence(runs[0], runs[1], exact=True)
    envs = dots(mode, g_channel=g_channel)
    for answer in runs[0]:
        assert answer[0] in envs.observation_space
        if len(answer) == 5:
            assert (answer[1].dtype, answer[2].dtype, answer[3].dtype) == (np.float64, np.bool_, np.bool_)
            assert answer[1].shape == (N,)


class First(gymnasium.Env):
    """A batch of one as the single environment that `check_env` wants."""

    def __init__(self, envs) -> None:
        self.envs = envs
        self.observation_space, self.action_space = envs.single_observation_space, envs.single_action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        observations, infos = self.envs.reset(seed=seed)
        return observations[0], infos

    def step(self, action):
        observations, rewards, terminations, truncations, infos = self.envs.step(np.array([action]))
        return observations[0], float(rewards[0]), bool(terminations[0]), bool(truncations[0]), infos


@pytest.mark.filterwarnings("ignore:.*not having a spec")
def test_a_batch_of_one_passes_gymnasiums_whole_check():
    vector = SyncVectorEnv([Dots], autoreset_mode=AutoresetMode.SAME_STEP)
    # Raw rewards: the scale remembers what was paid before, and the same step would not pay the same again.
    wrapped = IntrinsicRewardWrapper(vector, "mega", normalise=False, **MEGA)
    env_checker.check_env(First(wrapped), skip_render_check=True)


@every_mode
def test_the_game_goes_on_as_without_the_wrapper_and_its_rewards_are_in_the_infos(mode):
    bare = play(SyncVectorEnv([Dots] * N, autoreset_mode=mode), 15)
    wrapped = play(dots(mode), 15)
    for one, two in zip(bare, wrapped, strict=True):
        assert np.array_equal(one[0], two[0])
        if len(one) == 5:
            assert np.array_equal(one[1], two[4]["score"])
            assert two[4]["_score"].all()
            assert np.array_equal(two[1], two[4]["intrinsic_reward"])
            assert np.array_equal(one[2], two[2])
            assert np.array_equal(one[3], two[3])
            assert env_checker.data_equivalence({**one[4]}, {key: two[4][key] for key in one[4]}, exact=True)


def test_the_reward_can_be_added_with_a_weight():
    replaced, added = (play(dots(AutoresetMode.SAME_STEP, **o), 9) for o in ({}, {"mode": "add", "weight": 0.5}))
    for one, two in zip(replaced[1:], added[1:], strict=True):
        np.testing.assert_allclose(two[1], 0.5 * one[1] + one[4]["score"])


@every_mode
def test_g_is_a_channel_of_the_frame_it_belongs_to(mode):
    """Also of the true last frame; it is empty where an episode begins."""
    vector = TapeVector(tape(longest=4), mode)
    plain = megareward.make(
        "mega",
        SPACE,
        ACTIONS,
        N,
        autoreset="next_step" if mode is AutoresetMode.NEXT_STEP else "same_step",
        **settings_for("mega"),
    )
    envs = IntrinsicRewardWrapper(vector, plain, g_channel=True)
    assert envs.single_observation_space == Box(0, 255, (2, *SHAPE), np.uint8)
    observations, _ = envs.reset()
    assert not observations[:, 1].any()
    ends = 0
    for _ in range(20):
        observations, _, terminated, truncated, infos = envs.step(vector.projector.actions())
        ended = terminated | truncated
        step = plain.watcher.steps[-1]
        cells = np.rint(255 * step.g_after.view(N, H, W).numpy())
        for n in range(N):
            last = infos["final_obs"][n] if ended[n] and mode is AutoresetMode.SAME_STEP else observations[n]
            assert np.array_equal(last[0], step.after[n].numpy())
            assert np.array_equal(last[1, ::8, ::6], cells[n])
            if ended[n] and mode is AutoresetMode.SAME_STEP:
                assert not observations[n, 1].any()
        ends += ended.sum()
        if mode is AutoresetMode.DISABLED and ended.any():
            observations, _ = envs.reset(options={"reset_mask": ended})
            assert not observations[ended, 1].any()
    assert ends > N


@pytest.mark.parametrize("game", ["mini-pong", "mini-demon"])
@pytest.mark.parametrize("method", ["mega", "rnd", "curiosity", "count"])
def test_the_first_rewards_are_no_larger_than_later_ones(method, game):
    """Two environments, so that the spread of the first rewards is easily near 0; 64 steps of rnd are worth 0."""
    envs = IntrinsicRewardWrapper(GymnasiumVector(make_mini(game, 2)), method, seed=0, update_every=64)
    envs.action_space.seed(0)
    envs.reset(seed=0)
    paid = np.abs([envs.step(envs.action_space.sample())[1] for _ in range(320)])
    assert paid.max() < 5
    assert not paid[:128].any()
    assert paid[250:].any()


def test_what_is_known_of_the_scale_outlives_a_saved_state_and_raw_rewards_need_none():
    def build():
        return IntrinsicRewardWrapper(GymnasiumVector(make_mini("mini-pong", 2)), "count", seed=0, settle_steps=10)

    old, new = build(), build()
    old.reset(seed=0)
    paid = [old.step(np.ones(2, int))[1].any() for _ in range(20)]
    assert paid == [False] * 10 + [True] * 10
    new.reward.load_state_dict(old.reward.state_dict())
    new.reset(seed=1)
    assert new.step(np.ones(2, int))[1].all()
    raw = IntrinsicRewardWrapper(GymnasiumVector(make_mini("mini-pong", 2)), "count", normalise=False)
    raw.reset(seed=0)
    assert raw.step(np.ones(2, int))[1].all()


def test_frozen_models_learn_nothing_and_keep_nothing():
    envs = dots(AutoresetMode.NEXT_STEP, update_every=None)
    before = {name: x for name, x in envs.reward.state_dict().items() if name.startswith("control")}
    play(envs, 12)
    after = envs.reward.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert envs.reward.watcher.steps == []


def test_a_wrapper_saved_between_two_steps_goes_on_the_same():
    """With games that can be saved as well."""

    def build():
        games = make_mini("mini-pong", N, ONE_POINT)
        return games, IntrinsicRewardWrapper(GymnasiumVector(games), "mega", update_every=8, **MEGA | {"control": None})

    games, envs = build()
    envs.reset(seed=1)
    actions = [np.full(N, t % 3) for t in range(40)]
    for t in range(21):
        envs.step(actions[t])
    state, at = envs.state_dict(), games.state_dict()
    expected = [envs.step(actions[t]) for t in range(21, 40)]
    games, envs = build()
    games.load_state_dict(at)
    envs.load_state_dict(state)
    answers = [envs.step(actions[t]) for t in range(21, 40)]
    assert env_checker.data_equivalence(expected, answers, exact=True)


def test_the_score_keeper_below_it_still_counts_the_score():
    envs = IntrinsicRewardWrapper(RecordEpisodeStatistics(TapeVector(tape(), AutoresetMode.NEXT_STEP)), "count")
    assert envs.reward.watcher.next_step
    bare = RecordEpisodeStatistics(TapeVector(tape(), AutoresetMode.NEXT_STEP))
    envs.reset(), bare.reset()
    for _ in range(20):
        actions = bare.env.projector.actions()
        one, two = bare.step(actions)[4], envs.step(actions)[4]
        assert ("episode" in one) == ("episode" in two)
        if "episode" in one:
            assert np.array_equal(one["episode"]["r"], two["episode"]["r"])


def test_mini_games_that_reset_within_the_step_show_the_frames_of_our_own_stream():
    """Environment by environment, given the same actions at the same transitions."""
    same, own = SameStepMini("mini-pong", N, ONE_POINT), make_mini("mini-pong", N, ONE_POINT)
    actions = np.random.default_rng(0).integers(0, same.single_action_space.n, (60, N))
    observations, _ = same.reset(seed=4)
    seen = [[(observations[n, 0], None)] for n in range(N)]
    for _ in range(40):
        chosen = np.array([actions[len(seen[n]) - 1 - opened(seen[n]), n] for n in range(N)])
        observations, rewards, terminated, truncated, infos = same.step(chosen)
        for n in range(N):
            if terminated[n] or truncated[n]:
                seen[n].append((infos["final_obs"][n][0], (rewards[n], terminated[n], truncated[n])))
                seen[n].append((observations[n, 0], None))
            else:
                seen[n].append((observations[n, 0], (rewards[n], False, False)))
    step = own.reset(4)
    stream = [[(step.frames[n].numpy(), None)] for n in range(N)]
    for _ in range(50):
        done = [len(stream[n]) - 1 - opened(stream[n]) for n in range(N)]
        step = own.step(torch.tensor([actions[done[n], n] for n in range(N)]))
        for n in range(N):
            what = (
                None if step.first[n] else (float(step.rewards[n]), bool(step.terminated[n]), bool(step.truncated[n]))
            )
            stream[n].append((step.frames[n].numpy().copy(), what))
    for n in range(N):
        M = min(len(seen[n]), len(stream[n]))
        assert opened(seen[n][:M]) >= 1
        for (frame, what), (expected, wanted) in zip(seen[n][:M], stream[n][:M], strict=True):
            assert np.array_equal(frame, expected)
            assert what == wanted


def opened(entries) -> int:
    """Episodes opened after the first: frames that no action led to."""
    return sum(what is None for _, what in entries) - 1


def test_alone_and_in_a_batch_ale_games_are_rewarded():
    from ale_py.vector_env import AtariVectorEnv

    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        games = AtariVectorEnv("pong", 2, autoreset_mode=mode, noop_max=0, max_num_frames_per_episode=24)
        envs = IntrinsicRewardWrapper(games, "count", g_channel=False)
        envs.reset(seed=1)
        ends = 0
        for _ in range(14):
            _, rewards, terminated, truncated, _ = envs.step(np.array([2, 3]))
            ends += (terminated | truncated).sum()
            assert np.isfinite(rewards).all()
        assert ends >= 2


def test_what_does_not_fit_is_refused_in_a_sentence():
    vector = TapeVector(tape(), AutoresetMode.NEXT_STEP)
    late = megareward.make("count", SPACE, ACTIONS, N)
    with pytest.raises(UsageError, match="autoreset='next_step'"):
        IntrinsicRewardWrapper(vector, late)
    with pytest.raises(UsageError, match="n_envs=3"):
        IntrinsicRewardWrapper(vector, megareward.make("count", SPACE, ACTIONS, 2, autoreset="next_step"))
    with pytest.raises(UsageError, match="made already; pass beta"):
        IntrinsicRewardWrapper(vector, late, beta=1.0)
    with pytest.raises(UsageError, match="update_every is 0"):
        IntrinsicRewardWrapper(vector, "count", update_every=0)
    with pytest.raises(UsageError, match="settle_steps is -1"):
        IntrinsicRewardWrapper(vector, "count", settle_steps=-1)
    with pytest.raises(UsageError, match="tracks_control=True"):
        IntrinsicRewardWrapper(vector, "rnd", g_channel=True, tracks_control=False)
    with pytest.raises(UsageError, match="reset the environments first"):
        IntrinsicRewardWrapper(vector, "count").step(np.zeros(N, int))
    with pytest.raises(UsageError, match="Discrete"):
        IntrinsicRewardWrapper(SyncVectorEnv([Continuous] * N), "count")
    vector.metadata = {}
    with pytest.raises(UsageError, match=r"autoreset_mode'\] is missing"):
        IntrinsicRewardWrapper(vector, "count")
    hidden = TapeVector(tape(shortest=1, longest=1), AutoresetMode.SAME_STEP)
    hidden._add_info = lambda infos, info, n: infos
    envs = IntrinsicRewardWrapper(hidden, "count")
    envs.reset()
    with pytest.raises(UsageError, match="no 'final_obs'"):
        envs.step(hidden.projector.actions())


class Continuous(Dots):
    action_space = Box(-1, 1, (2,))


def test_an_action_that_does_not_start_at_zero_is_the_same_action():
    class Shifted(Dots):
        action_space = Discrete(ACTIONS.n, start=5)

    envs = IntrinsicRewardWrapper(SyncVectorEnv([Shifted] * N), "curiosity")
    envs.reset(seed=0)
    envs.step(np.full(N, 5))
    assert envs.reward.watcher.steps[-1].actions.tolist() == [0] * N


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_screen_that_flashes_all_the_time_is_warned_of_once_with_the_remedy(share):
    control = replace(CONTROL, latent=LatentConfig(flash=share))
    vector = TapeVector(tape(), AutoresetMode.NEXT_STEP)
    envs = IntrinsicRewardWrapper(vector, "mega", update_every=5, seed=0, control=control)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        envs.reset()
        shares = []
        for _ in range(11):
            envs.step(vector.projector.actions())
            shares.append(envs.metrics.get("control/flashes"))
    warned = [str(w.message) for w in caught if "change most of the screen" in str(w.message)]
    if share == 1:
        assert warned == []
        assert set(shares) == {None}
    else:
        assert shares[-1] > 0.5
        assert len(warned) == 1
        assert "LatentConfig(flash=1.0)" in warned[0]


def test_the_module_is_imported_where_wrappers_of_gymnasium_take_no_types():
    """As before Gymnasium 1.4."""
    check = (
        "from gymnasium import vector; vector.VectorWrapper = type('VectorWrapper', (vector.VectorEnv,), {});"
        "vector.VectorWrapper.__class_getitem__ = None; import megareward.integration.gymnasium_wrapper"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
