"""The emulator that can be cloned shows the frames of the one that cannot."""

import numpy as np
import pytest
import torch

from megareward.counterfactual.clonable_atari import Emulator, Shrink
from megareward.envs.atari import Atari
from megareward.envs.atari_config import AtariConfig

STEPS = 120
GAMES = ("pong", "breakout", "demon_attack", "seaquest", "freeway", "air_raid")
"""Games with and without FIRE, of 3 to 18 actions, and one with a taller screen."""


def vector_frames(rom, config, seed, actions):
    """The frames of the vector emulator until the game ends, whose last frame it never draws."""
    env = Atari(rom, 1, config, hide_score=True)
    frames = [env.reset(seed).frames[0].numpy()]
    for action in actions:
        env.send(torch.tensor([action]))
        step = env.recv()
        if step.episode_over:
            break
        frames.append(step.frames[0].numpy())
    env.close()
    return frames


def random_actions(rom, seed):
    n_actions = len(Emulator(rom, AtariConfig(fire_after_life=False), hide_score=False, seed=0).actions)
    return np.random.default_rng(seed).integers(n_actions, size=STEPS)


def own_seed(seed):
    return int(np.random.SeedSequence(seed).generate_state(1)[0] >> 1)


@pytest.mark.parametrize("rom", GAMES)
@pytest.mark.parametrize(
    "config",
    [
        AtariConfig(fire_after_life=False, noop_max=1),
        AtariConfig(fire_after_life=False, noop_max=1, px=60, frame_skip=3),
    ],
)
def test_every_frame_equals_the_vector_emulators(rom, config):
    actions = random_actions(rom, seed=3)
    expected = vector_frames(rom, config, 5, actions)
    emulator = Emulator(rom, config, hide_score=True, seed=own_seed(5))
    assert np.array_equal(emulator.frame(emulator.start(0)), expected[0])
    for t in range(len(expected) - 1):
        screen, over = emulator.decide(actions[t])
        assert not over
        assert np.array_equal(emulator.frame(screen), expected[t + 1]), t
    assert len(expected) > 60


def test_an_episode_opens_the_same_however_often_it_is_begun():
    emulator = Emulator(
        "demon_attack", AtariConfig(fire_after_life=False), hide_score=True, seed=own_seed(5)
    )  # one that reads the timer
    actions = random_actions("demon_attack", seed=3)[:30]

    def played(n_noops):
        return [emulator.start(n_noops), *(emulator.decide(action)[0] for action in actions)]

    expected = played(7)
    for n_noops in (0, 3, 7, 12, 7):
        frames = played(n_noops)
        assert (n_noops == 7) == np.array_equal(frames, expected)


def test_a_restored_game_goes_on_as_it_did_and_shows_the_same_frames():
    emulator = Emulator("breakout", AtariConfig(fire_after_life=False), hide_score=True, seed=1)
    emulator.start(3)
    actions = random_actions("breakout", seed=2)
    for action in actions[:40]:
        emulator.decide(action)
    state = emulator.clone()
    expected = [emulator.frame(emulator.decide(action)[0]) for action in actions[40:80]]
    for action in actions[80:]:
        emulator.decide(action)
    emulator.restore(state)
    for frame, action in zip(expected, actions[40:80], strict=True):
        assert np.array_equal(emulator.frame(emulator.decide(action)[0]), frame)


def test_changed_pixels_are_those_of_the_whole_frames_and_never_in_the_score():
    emulator = Emulator("pong", AtariConfig(fire_after_life=False), hide_score=True, seed=1)
    rng = np.random.default_rng(0)
    before = emulator.start(0)
    score = ~emulator._visible[0]
    assert score.any()
    for _ in range(60):
        after = before.copy()
        y, x = rng.integers(0, 200), rng.integers(0, 150)
        after[y : y + rng.integers(1, 9), x : x + rng.integers(1, 9)] ^= np.uint8(rng.integers(1, 255))
        expected = emulator.frame(before) != emulator.frame(after)
        assert np.array_equal(emulator.changed_pixels(before, after), expected)
        assert not (emulator.changed_pixels(before, after) & score).any()
    assert not emulator.changed_pixels(before, before.copy()).any()


def test_a_part_of_a_frame_is_that_part_of_the_whole():
    shrink = Shrink((210, 160), 84)
    screen = np.random.default_rng(1).integers(0, 256, (210, 160), np.uint8)
    box = (slice(10, 31), slice(40, 84))
    assert np.array_equal(shrink(screen, box), shrink(screen)[box])
    assert np.array_equal(shrink(np.full((210, 160), 77, np.uint8)), np.full((84, 84), 77, np.uint8))
