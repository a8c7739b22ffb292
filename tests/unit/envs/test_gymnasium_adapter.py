"""Gymnasium ships no checker for vector environments as such, so three of its own instruments are used here: the parts
of `env_checker` that hold for any number of environments, all of `check_env` on a batch of one, and its score keeper.
"""

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import env_checker, passive_env_checker
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from megareward.envs.gymnasium_adapter import GymnasiumVector
from megareward.envs.mini import MINI_GAMES, mini_config
from megareward.envs.mini.games import make_mini
from megareward.errors import UsageError

every_game = pytest.mark.parametrize("name", MINI_GAMES)
pytestmark = pytest.mark.filterwarnings("error::UserWarning")


def vector(name: str, n_envs: int = 5, **options) -> GymnasiumVector:
    env = GymnasiumVector(make_mini(name, n_envs, mini_config(name, **options)))
    env.spec = EnvSpec(id=f"{name}-v0", nondeterministic=False)  # the checks for determinism ask for it
    return env


class First(gymnasium.Env):
    """A batch of one as the single environment that `check_env` wants."""

    def __init__(self, env: GymnasiumVector) -> None:
        self.env = env
        self.observation_space, self.action_space = env.single_observation_space, env.single_action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        frames, infos = self.env.reset(seed=seed, options=options)
        return frames[0], infos

    def step(self, action):
        frames, rewards, terminations, truncations, infos = self.env.step(np.array([action]))
        return frames[0], float(rewards[0]), bool(terminations[0]), bool(truncations[0]), infos


@every_game
def test_the_batch_passes_gymnasiums_checks_of_spaces_and_resets(name):
    env = vector(name)
    for observation_space in (env.single_observation_space, env.observation_space):
        passive_env_checker.check_observation_space(observation_space)
        env_checker.check_space_limit(observation_space, "observation")
    for action_space in (env.single_action_space, env.action_space):
        passive_env_checker.check_action_space(action_space)
        env_checker.check_space_limit(action_space, "action")
    env_checker.check_seed_deprecation(env)
    env_checker.check_reset_return_info_deprecation(env)
    env_checker.check_reset_return_type(env)
    env_checker.check_reset_seed_determinism(env)
    env_checker.check_reset_options(env)
    passive_env_checker.env_reset_passive_checker(env, seed=3)


@every_game
@pytest.mark.filterwarnings("ignore:.*not having a spec")
def test_a_batch_of_one_passes_gymnasiums_whole_check(name):
    env_checker.check_env(First(vector(name, n_envs=1)), skip_render_check=True)


@every_game
def test_steps_are_deterministic_fit_the_spaces_and_are_the_callers_own(name):
    runs = []
    for _ in range(2):
        env = vector(name)
        env.action_space.seed(2)
        runs.append([env.reset(seed=8), *(env.step(env.action_space.sample()) for _ in range(30))])
    assert env_checker.data_equivalence(runs[0], runs[1], exact=True)
    frames, rewards, terminations, truncations, infos = runs[0][-1]
    assert frames in env.observation_space
    assert (rewards.dtype, terminations.dtype, truncations.dtype) == (np.float64, np.bool_, np.bool_)
    assert rewards.shape == terminations.shape == truncations.shape == (5,)
    assert infos == {}
    for before, after in zip(runs[0][1:], runs[0][2:], strict=False):
        assert not any(np.shares_memory(a, b) for a, b in zip(before[:4], after[:4], strict=True))


@every_game
def test_after_an_end_the_next_step_opens_an_episode_with_reward_zero(name):
    env = vector(name, max_steps=20)
    assert env.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    env.reset(seed=1)
    env.action_space.seed(1)
    over, ends = np.zeros(5, dtype=bool), 0
    for _ in range(70):
        _, rewards, terminations, truncations, _ = env.step(env.action_space.sample())
        assert (rewards[over] == 0).all()
        assert not (terminations | truncations)[over].any()
        over = terminations | truncations
        ends += over.sum()
    assert ends >= 5 * 3


@every_game
def test_gymnasiums_own_bookkeeping_agrees_on_scores_and_lengths(name):
    env = RecordEpisodeStatistics(vector(name, n_envs=4, max_steps=50))
    frames, _ = env.reset(seed=1)
    assert frames.shape == (4, 32, 32)
    env.action_space.seed(1)
    scores, finished = np.zeros(4), 0
    for _ in range(110):
        _, rewards, terminations, truncations, infos = env.step(env.action_space.sample())
        scores += rewards
        over = terminations | truncations
        if over.any():
            assert np.allclose(infos["episode"]["r"][over], scores[over])
            assert (infos["episode"]["l"][over] <= 50).all()
            finished += over.sum()
            scores[over] = 0
    assert finished >= 4 * 2


def test_a_lost_life_alone_is_no_end_for_gymnasium():
    plain, asked = (vector("mini-breakout", life_loss_is_terminal=asked) for asked in (False, True))
    for env in (plain, asked):
        env.reset(seed=1)
    for _ in range(60):
        assert env_checker.data_equivalence(plain.step(np.zeros(5)), asked.step(np.zeros(5)), exact=True)


def test_unknown_reset_options_are_refused():
    with pytest.raises(UsageError, match="reset_mask"):
        vector("mini-pong").reset(options={"reset_mask": np.ones(5, dtype=bool)})


def test_closing_twice_is_allowed():
    env = vector("mini-pong")
    env.close()
    env.close()
    assert env.closed
