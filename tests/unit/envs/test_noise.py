"""The noisy screen: how strong the noise is, where it lies, and that it depends on the seed alone."""

from dataclasses import replace

import pytest
import torch

from megareward.envs.atari_config import AtariConfig
from megareward.envs.interface import BatchedEnv
from megareward.envs.make import make_env
from megareward.envs.mini import PongConfig
from megareward.envs.mini.games import make_mini
from megareward.envs.mini.hashed_rng import WORD, mix
from megareward.envs.noise import NoisyScreen, clean_frames, mix_in_place
from megareward.envs.noise_config import NoiseConfig
from megareward.errors import UsageError
from tests.small_envs import IdentityEnv
from tests.unit.envs.test_wrapper import CPU, N, assert_same, play, random_actions

BOTH = NoiseConfig(std=0.3, tv="action")


def pong() -> BatchedEnv:
    return make_mini("mini-pong", N, PongConfig(points=1, max_steps=9))


def grey(level: int) -> IdentityEnv:
    """Frames of one level; wide enough to measure the noise by."""
    env = IdentityEnv(n_envs=2, n_actions=1, size=128)
    show = env.recv
    env.recv = lambda: replace(show(), frames=torch.full((2, 128, 128), level, dtype=torch.uint8))
    return env


@pytest.mark.parametrize("std", [0.05, 0.1])
def test_the_std_is_a_share_of_the_range_and_the_mean_stays(std):
    noise = NoisyScreen(grey(128), NoiseConfig(std=std)).reset(3).frames.float() - 128
    assert abs(float(noise.mean())) < 0.5
    assert float(noise.std()) == pytest.approx(std * 255, rel=0.02)
    assert float((noise.abs() < std * 255).float().mean()) == pytest.approx(0.683, abs=0.015)  # a normal one


def test_hashes_in_words_of_32_bits_are_those_of_the_mini_games():
    words = torch.randint(2**32, (1000,), generator=torch.Generator().manual_seed(1))
    assert torch.equal(mix_in_place(words.to(torch.int32)).long() & WORD, mix(words))


def test_sums_are_clipped_to_the_range_of_grey_levels():
    for level in (0, 255):
        frames = NoisyScreen(grey(level), NoiseConfig(std=0.3)).reset(3).frames
        assert float((frames == level).float().mean()) == pytest.approx(0.5, abs=0.01)  # the other half is inside


def test_every_pixel_frame_environment_and_seed_has_noise_of_its_own():
    env = NoisyScreen(grey(128), NoiseConfig(std=0.1))
    frames = [env.reset(1).frames, *(step.frames for step in play(env, random_actions(env, 3))), env.reset(2).frames]
    noise = torch.cat(frames).flatten(1).float() - 128  # (10, 128 * 128)
    correlation = torch.corrcoef(noise) - torch.eye(len(noise))
    assert float(correlation.abs().max()) < 0.04  # five standard errors
    assert float(torch.corrcoef(noise.view(-1, 2).T)[0, 1].abs()) < 0.01  # neighbours


def test_only_the_frames_are_changed_and_the_game_behind_can_be_seen():
    inner, noisy = pong(), NoisyScreen(pong(), NoiseConfig(std=0.3))
    actions = random_actions(inner, 20)
    one, two = inner.reset(4), noisy.reset(4)
    for clean, step in zip([one, *play(inner, actions)], [two, *play(noisy, actions)], strict=True):
        assert not torch.equal(clean.frames, step.frames)
        assert_same(clean, replace(step, frames=clean.frames))
    assert torch.equal(clean_frames(noisy, step), clean.frames)
    assert clean_frames(inner, clean) is clean.frames


def test_the_screen_covers_its_corner_only_and_is_new_in_every_frame():
    inner, noisy = pong(), NoisyScreen(pong(), NoiseConfig(tv="always"))
    assert (noisy.n_actions, noisy.action_names) == (inner.n_actions, inner.action_names)
    inner.reset(4)
    corners = [noisy.reset(4).frames[:, :8, :8]]
    actions = random_actions(inner, 9)
    for one, two in zip(play(inner, actions), play(noisy, actions), strict=True):
        corners.append(two.frames[:, :8, :8])
        frames = one.frames.clone()
        frames[:, :8, :8] = corners[-1]
        assert_same(replace(one, frames=frames), two)
    assert len(torch.cat(corners).flatten(1).unique(dim=0)) == 10 * N


def test_an_action_switches_the_screen_on_and_does_nothing_else():
    inner, noisy = pong(), NoisyScreen(pong(), NoiseConfig(tv="action"))
    assert (noisy.n_actions, noisy.action_names[-1]) == (inner.n_actions + 1, "TV")
    inner.reset(4)
    assert not noisy.reset(4).frames[:, :8, :8].any()
    for t, chosen in enumerate(random_actions(inner, 12)):
        watches = torch.arange(N) % 3 == t % 3
        [one] = play(inner, [torch.where(watches, 0, chosen)])
        [two] = play(noisy, [torch.where(watches, inner.n_actions, chosen)])
        on = two.frames[:, :8, :8].flatten(1).any(1)
        assert torch.equal(on, watches & ~two.first)  # a first frame is nobody's doing
        assert torch.equal(one.frames[:, 8:], two.frames[:, 8:])
        assert_same(one, replace(two, frames=one.frames))


def test_a_restored_screen_goes_on_exactly():
    env, restored = NoisyScreen(pong(), BOTH), NoisyScreen(pong(), BOTH)
    actions = random_actions(env, 16)
    env.reset(4)
    play(env, actions[:7])
    state = env.state_dict()
    expected = play(env, actions[7:])
    restored.reset(9)
    restored.load_state_dict(state)
    for one, two in zip(expected, play(restored, actions[7:]), strict=True):
        assert_same(one, two)


@pytest.mark.parametrize("n_groups", [2, 3])
def test_groups_of_any_size_show_the_same_after_the_score_is_painted_out(n_groups):
    def atari(groups: int) -> BatchedEnv:
        config = AtariConfig(threads=1, groups=groups, px=42, max_frames=40)
        return NoisyScreen(make_env("breakout", N, config, hide_score=True, device=CPU, in_groups=True), BOTH)

    together, apart = atari(1), atari(n_groups)
    assert_same(together.reset(2), apart.reset(2))
    assert not together.clean[:, 1:3, 9:21].any()  # the score's box
    for chosen in random_actions(together, 15):
        [whole] = play(together, [chosen])
        for group in chosen.split(N // n_groups):  # all groups are under way at once
            apart.send(group)
        parts = [apart.recv() for _ in range(n_groups)]
        for name, tensor in vars(whole).items():
            assert torch.equal(tensor, torch.cat([getattr(part, name) for part in parts]))
    together.close()
    apart.close()


@pytest.mark.parametrize(
    ("setting", "sentence"), [({"std": -0.1}, "--noise.std is -0.1; use"), ({"tv_side": 0.0}, "--noise.tv-side is 0.0")]
)
def test_impossible_noise_is_refused(setting, sentence):
    with pytest.raises(UsageError, match=sentence):
        NoiseConfig(**setting)
