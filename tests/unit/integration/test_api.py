"""`megareward.make`: what it promises to a loop that is not ours."""

import copy
import pickle
import subprocess
import sys
import warnings
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import safetensors.torch
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

import megareward
from megareward.control.config import ControlConfig
from megareward.errors import UsageError
from megareward.integration import watcher as watching
from megareward.integration.rlexplore import RND, Count, Mega
from megareward.rewards.settings import MegaConfig
from tests.unit.integration.tapes import (
    ACTIONS,
    CONTROL,
    REWARDING,
    SHAPE,
    SPACE,
    A,
    H,
    N,
    TapeVector,
    W,
    settings_for,
    tape,
)
from tests.unit.integration.test_same_reward import steps_of

T = 7
KEYS = ("observations", "actions", "rewards", "terminateds", "truncateds", "next_observations")
every_method = pytest.mark.parametrize("method", REWARDING)


def make(method, **options):
    return megareward.make(method, SPACE, ACTIONS, N, **{**settings_for(method), **options})


def same_steps(n_steps=3 * T, seed=0):
    return list(steps_of(TapeVector(tape(seed, longest=5), AutoresetMode.SAME_STEP), n_steps))


def samples_of(steps):
    return {key: np.stack([step[i] for step in steps]) for i, key in enumerate(KEYS)}


def painted(g):
    """(N, HW) -> (N, 32, 36): every cell as large as it is in the frame."""
    return g.view(N, H, W).repeat_interleave(SHAPE[0] // H, 1).repeat_interleave(SHAPE[1] // W, 2)


def assert_same(one, two):
    assert one.keys() == two.keys()
    assert [name for name in one if not torch.equal(one[name], two[name])] == []


@every_method
def test_computing_changes_nothing_and_gives_one_number_per_step(method):
    reward = make(method)
    for step in same_steps(T):
        reward.watch(*step)
    before, global_rng = reward.state_dict(), torch.get_rng_state()
    one, two = reward.compute(), reward.compute(samples_of(same_steps(T)))
    assert one.shape == (T, N)
    assert one.dtype == torch.float32
    assert torch.equal(one, two)
    assert_same(before, reward.state_dict())
    assert torch.equal(global_rng, torch.get_rng_state())


@every_method
def test_saved_at_any_step_and_loaded_it_goes_on_as_if_nothing_had_been(method):
    steps = same_steps()
    one = make(method)
    for t, step in enumerate(steps):
        if t == T + 3:  # in the middle of a rollout
            other = make(method, seed=99)
            other.load_state_dict(safetensors.torch.load(safetensors.torch.save(one.state_dict())))
        for reward in (one, other) if t >= T + 3 else (one,):
            reward.watch(*step)
        if t % T == T - 1:
            assert t < T + 3 or torch.equal(one.compute(), other.compute())
            metrics = one.update()
            assert all(np.isfinite(number) for number in metrics.values())
            assert t < T + 3 or metrics == other.update()
    assert_same(one.state_dict(), other.state_dict())


@every_method
@pytest.mark.parametrize("again", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_pickled_or_copied_it_goes_on_the_same_and_shares_nothing(method, again):
    """Processes are handed what can be pickled; a copy that shared its networks would learn everything twice."""
    steps = same_steps(2 * T)
    one = make(method)
    for step in steps[:T]:
        one.watch(*step)
    one.update()
    other, before = again(one), one.state_dict()
    assert_same(before, other.state_dict())
    for step in steps[T:]:
        other.watch(*step)
    other.update()
    assert_same(before, one.state_dict())
    for step in steps[T:]:
        one.watch(*step)
    one.update()
    assert_same(one.state_dict(), other.state_dict())


def test_a_state_of_another_reward_is_refused():
    with pytest.raises(UsageError, match=r"count, 3 environments, 7 actions, 32 x 36 px.*this one is for rnd"):
        make("rnd", tracks_control=False).load_state_dict(make("count", tracks_control=False).state_dict())
    with pytest.raises(UsageError, match="lacks 'made_for'"):
        make("rnd").load_state_dict({})
    small, large = make("mega"), make("mega", control=ControlConfig(H=H, W=W))
    with pytest.raises(UsageError, match="same settings"):
        large.load_state_dict(small.state_dict())


@every_method
def test_the_score_reaches_only_a_method_that_is_made_of_it(method):
    plain, flipped = make(method), make(method)
    for observations, actions, rewards, *rest in same_steps():
        plain.watch(observations, actions, rewards, *rest)
        flipped.watch(observations, actions, -rewards, *rest)
    same = torch.equal(plain.compute(), flipped.compute())
    assert same == (method != "extrinsic")


def test_g_is_cleared_when_an_episode_begins_and_can_be_painted_over_the_observation():
    reward = make("mega")
    assert not reward.control.g.any()
    for *step, terminated, truncated, following in same_steps():
        reward.watch(*step, terminated, truncated, following)
        ended = torch.from_numpy(terminated | truncated)
        assert not reward.control.g[ended].any()
        assert not reward.control.direct[ended].any()
        assert (reward.control.direct[~ended].sum(-1) > 0.99).all()
        assert torch.equal(reward.picture(), painted(reward.control.g))
    assert reward.picture(size=(8, 18)).shape == (N, 8, 18)
    with pytest.raises(UsageError, match="tracks_control=True"):
        make("rnd", tracks_control=False).control  # noqa: B018


def test_unclipped_g_is_painted_by_its_bound():
    config = replace(CONTROL, latent=replace(CONTROL.latent, combine="sum", clip=False))
    reward = make("mega", control=config)
    g = torch.rand(N, H * W) / (1 - config.latent.rho)
    assert g.max() > 90
    assert torch.equal(reward.picture(g), painted(g * (1 - config.latent.rho)))
    assert reward.picture(g).max() <= 1


def test_stacks_single_frames_and_colours_earn_the_same():
    """Even a stack that is filled up with black earns the same as one that is filled up with the first frame."""
    rewards = []
    for layout in ("single", "stack", "colour"):
        shape = {"single": SHAPE, "stack": (4, *SHAPE), "colour": (*SHAPE, 3)}[layout]
        reward = megareward.make("mega", spaces.Box(0, 255, shape, np.uint8), ACTIONS, N, **settings_for("mega"))

        def show(frames, shape=shape, layout=layout):
            if layout == "stack":
                return np.stack([np.zeros_like(frames)] * 3 + [frames], 1)
            return frames if layout == "single" else np.repeat(frames[..., None], 3, -1)

        for observations, *rest, following in same_steps():
            reward.watch(show(observations), *rest, show(following))
        rewards.append(reward.compute())
    assert torch.equal(rewards[0], rewards[1])
    assert torch.equal(rewards[0], rewards[2])


# What goes wrong in real loops ---------------------------------------------------------------------------------------


def test_a_step_left_out_is_noticed():
    reward = make("count")
    steps = same_steps()
    lengths = [step[3] | step[4] for step in steps]
    skipped = next(t for t in range(1, 20) if not lengths[t - 1].all() and not lengths[t].all())
    for step in steps[:skipped]:
        reward.watch(*step)
    with pytest.raises(UsageError, match="are not the next_observations of the step before"):
        reward.watch(*steps[skipped + 1])


def test_passing_the_first_frame_of_the_next_episode_for_the_last_one_is_warned_of():
    reward = make("count")
    steps = same_steps()
    end = next(t for t, step in enumerate(steps) if (step[3] | step[4]).any())
    for step in steps[:end]:
        reward.watch(*step)
    observations, actions, rewards, terminated, truncated, following = steps[end]
    wrong = np.where((terminated | truncated)[:, None, None], steps[end + 1][0], following)
    reward.watch(observations, actions, rewards, terminated, truncated, wrong)
    with pytest.warns(UserWarning, match="true last frames"):
        reward.watch(*steps[end + 1])


def test_right_loops_are_not_warned():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for mode, autoreset in ((AutoresetMode.NEXT_STEP, "next_step"), (AutoresetMode.SAME_STEP, "same_step")):
            reward = make("count", autoreset=autoreset)
            for step in steps_of(TapeVector(tape(longest=4), mode), 30):
                reward.watch(*step)


def test_a_reset_by_hand_must_be_said_and_opens_an_episode():
    reward, steps = make("mega"), same_steps(T, seed=1)
    reward.watch(*steps[0])
    with pytest.raises(UsageError, match="restart"):
        reward.watch(*steps[3])
    reward = make("mega")
    reward.watch(*steps[0])
    reward.restart()
    assert not reward.control.g.any()
    reward.watch(*steps[3])
    assert torch.equal(reward.watcher.steps[1].g_before, torch.zeros(N, H * W))
    assert reward.compute().shape == (2, N)


def test_samples_must_be_what_was_watched():
    reward, steps = make("mega"), same_steps(T)
    with pytest.raises(UsageError, match="made while playing"):
        reward.compute(samples_of(steps))
    with pytest.raises(UsageError, match="Nothing was watched"):
        reward.compute()
    for step in steps:
        reward.watch(*step)
    with pytest.raises(UsageError, match="samples hold 6 steps, but 7 were watched"):
        reward.compute(samples_of(steps[1:]))
    for key in KEYS:
        samples = samples_of(steps)
        samples[key] = samples[key].copy()
        samples[key][2, 1] = 1 - samples[key][2, 1] if samples[key].dtype == bool else (samples[key][2, 1] + 1) % A
        if key == "rewards":  # the caller may have changed them already, and mega does not read them
            reward.compute(samples)
        else:
            with pytest.raises(UsageError, match=f"{key} differ at step 2 of environment 1"):
                reward.compute(samples)
    samples = samples_of(steps)
    del samples["truncateds"]
    with pytest.raises(UsageError, match="lack 'truncateds'"):
        reward.compute(samples)
    with pytest.raises(UsageError, match=r"unknown key 'observation'.*observations"):
        reward.compute(samples_of(steps) | {"observation": 1})


def test_a_forgotten_update_is_noticed_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(watching, "MOST_STEPS", 5)
    reward = make("count", tracks_control=False)
    *steps, sixth = same_steps(6)
    for step in steps:
        reward.watch(*step)
    with pytest.raises(UsageError, match="without an update"):
        reward.watch(*sixth)
    reward.forget()
    reward.watch(*sixth)


def test_the_wrong_autoreset_mode_is_noticed_at_an_episode_of_one_step():
    reward = make("count", autoreset="next_step")
    frames = np.zeros((N, *SHAPE), np.uint8)
    step = (frames, np.zeros(N, int), np.zeros(N), np.ones(N, bool), np.zeros(N, bool), frames)
    reward.watch(*step)
    with pytest.raises(UsageError, match="autoreset='same_step'"):
        reward.watch(*step)


def test_what_cannot_be_made_is_refused_in_a_sentence():
    refusals = {
        "no method 'mgea'. Did you mean mega": {"method": "mgea"},
        "'random' gives no reward": {"method": "random"},
        "'sto' teaches skills: your policy would have to act by the code": {"method": "sto"},
        "'m-rnd' needs the observer 'masks', which runs in our own training only": {"method": "m-rnd"},
        "'morel' trains the policy's own trunk, which only our own training does": {"method": "morel"},
        "Use `megareward train div`, or a method without skills": {"method": "div"},
        "n_envs is 0": {"n_envs": 0},
        "autoreset is 'disabled'": {"autoreset": "disabled"},
        "preset is 'many'": {"preset": "many"},
        "no setting 'discoun'. Did you mean discount": {"discoun": 1},
        "leave tracks_control out": {"tracks_control": False},
        "Discrete actions only": {"action_space": spaces.Box(-1, 1, (2,))},
        "cannot be cut into 5 x 6 cells: h is 32": {"control": ControlConfig(H=5, W=6)},
        r"discount of stream 'mega' is 1\.5": {"discount": 1.5},
    }
    for sentence, changes in refusals.items():
        arguments = {"method": "mega", "observation_space": SPACE, "action_space": ACTIONS, "n_envs": N, **changes}
        if "control" not in changes:
            arguments["control"] = CONTROL
        with pytest.raises(UsageError, match=sentence):
            megareward.make(**arguments)


def test_small_frames_get_the_sizes_and_rates_of_mini_games():
    small, large = (
        megareward.make("rnd", spaces.Box(0, 255, (side, side), np.uint8), ACTIONS, 2, tracks_control=True)
        for side in (32, 84)
    )
    assert small.settings.learning_rate == 1e-3
    assert large.settings.learning_rate == 1e-4
    assert small.models.config.rtm.features < large.models.config.rtm.features
    chosen = megareward.make("rnd", spaces.Box(0, 255, (32, 32), np.uint8), ACTIONS, 2, learning_rate=0.5)
    assert chosen.settings.learning_rate == 0.5


def test_a_literal_preset_sets_the_models_and_what_they_are_paid_for_unless_the_caller_does():
    space = spaces.Box(0, 255, (84, 84), np.uint8)
    paper, released = (megareward.make("mega", space, ACTIONS, 2, preset=name) for name in ("paper", "released"))
    assert paper.settings == MegaConfig(end_takes_all=False, normalise=False)
    assert released.settings == MegaConfig(end_takes_all=False, bonus="count")
    assert paper.models.config.batch == released.models.config.batch == 8
    chosen = megareward.make("mega", space, ACTIONS, 2, preset="released", bonus="growth")
    assert chosen.settings == MegaConfig(end_takes_all=False)


@st.composite
def any_spaces(draw):
    sides = st.sampled_from([1, 3, 4, 32, 36, 40])
    shape = tuple(draw(st.lists(sides, min_size=1, max_size=4).filter(lambda s: np.prod(s) < 20_000)))
    dtype, low, high = draw(
        st.sampled_from([(np.uint8, 0, 255), (np.float32, 0, 1), (np.float32, -np.inf, np.inf), (np.int64, -5, 5)])
    )
    actions = draw(
        st.sampled_from(
            [spaces.Discrete(1), spaces.Discrete(5, start=2), spaces.MultiDiscrete([2, 2]), spaces.Box(0, 1)]
        )
    )
    return spaces.Box(low, high, shape, dtype), actions


@given(any_spaces(), st.sampled_from(REWARDING), st.integers(1, 3), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_any_spaces_give_a_reward_of_the_right_shape_or_a_sentence(both, method, n_envs, n_steps):
    space, actions = both
    try:
        reward = megareward.make(method, space, actions, n_envs, control=CONTROL)
    except UsageError:
        return
    space.seed(0)
    now = np.stack([space.sample() for _ in range(n_envs)])
    for t in range(n_steps):
        following = np.stack([space.sample() for _ in range(n_envs)])
        chosen, flags = np.array([actions.sample() for _ in range(n_envs)]), np.full(n_envs, t == 1)
        reward.watch(now, chosen, np.zeros(n_envs), flags, ~flags & False, following)
        now = np.stack([space.sample() for _ in range(n_envs)]) if t == 1 else following
    assert reward.compute().shape == (n_steps, n_envs)
    too_short = method == "emp" and n_steps < 3  # it needs four rows; the third step brings one more, for the reset
    with pytest.raises(UsageError, match="it holds no sequence to learn from") if too_short else nullcontext():
        assert all(np.isfinite(number) for number in reward.update().values())


# RLeXplore -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Mega, RND, Count])
def test_a_script_of_rlexplore_needs_another_import_only(kind):
    """Its constructor, its six keys, tensors of floats even for actions and flags; computing also learns."""
    envs = TapeVector(tape(longest=5), AutoresetMode.NEXT_STEP)
    options = {"control": CONTROL} if kind is Mega else {}
    irs, other = kind(envs, "cpu", **options), kind(envs=envs, device="cpu", **options)
    steps = list(steps_of(envs, T))
    samples = {key: torch.from_numpy(x).float() for key, x in samples_of(steps).items()}
    samples["actions"] = samples["actions"][..., None]
    for step in steps:
        for one in (irs, other):
            one.watch(**{key: torch.from_numpy(np.asarray(x)).float() for key, x in zip(KEYS, step, strict=True)})
    kept = other.compute(samples=samples, sync=False)
    assert other.metrics == {}
    assert torch.equal(irs.compute(samples), kept)
    assert irs.metrics == other.update(samples)


# Imports -------------------------------------------------------------------------------------------------------------


def test_importing_the_package_is_quick_and_brings_neither_sb3_nor_matplotlib_nor_torch():
    check = (
        "import sys, megareward; heavy = {'torch', 'stable_baselines3', 'matplotlib', 'gymnasium'} & set(sys.modules);"
        "assert not heavy, heavy; megareward.make; loaded = {'stable_baselines3', 'matplotlib'} & set(sys.modules);"
        "assert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_without_stable_baselines3_all_but_its_module_works_and_that_one_names_the_extra():
    check = (
        "import sys; sys.modules['stable_baselines3'] = None\n"
        "import megareward, megareward.integration.gymnasium_wrapper, megareward.integration.rlexplore\n"
        "megareward.make\n"
        "try:\n    import megareward.integration.stable_baselines3\n"
        "except ModuleNotFoundError as missing:\n    assert 'megareward[sb3]' in str(missing), missing\n"
        "else:\n    raise SystemExit('it was imported')"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_make_is_found_by_those_who_look_around():
    import megareward.integration

    assert "make" in dir(megareward)
    assert {"make", "IntrinsicReward"} <= set(dir(megareward.integration))


# Environments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", AutoresetMode)
def test_environments_say_themselves_how_many_they_are_and_how_they_are_reset(mode):
    envs = TapeVector(tape(), mode)
    reward = megareward.make("count", envs)
    late = mode is AutoresetMode.NEXT_STEP
    assert (reward.n_envs, reward.watcher.next_step) == (N, late)
    assert reward.reader.space == SPACE
    with pytest.raises(UsageError, match="these environments say"):
        megareward.make("count", envs, autoreset="same_step" if late else "next_step")
    with pytest.raises(UsageError, match="Environments know their spaces"):
        megareward.make("count", envs, n_envs=2)


def test_too_little_about_the_environments_is_refused():
    with pytest.raises(UsageError, match="A space alone says too little"):
        megareward.make("count", SPACE)
    with pytest.raises(UsageError, match="'pong' has no spaces"):
        megareward.make("count", "pong")
