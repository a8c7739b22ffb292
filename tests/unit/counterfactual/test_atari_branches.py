"""Branches of Atari episodes against the plainest form of the same; another episode is refused."""

import dataclasses

import numpy as np
import pytest
import torch

from megareward.cells import any_in_cells
from megareward.counterfactual.atari import RecordedEpisode, branch_episode, branch_episodes, find_start
from megareward.counterfactual.clonable_atari import Emulator
from megareward.envs.atari import Atari
from megareward.envs.atari_config import AtariConfig
from megareward.errors import RunError

LAGS, GRID = 4, (4, 7)


def record(rom, T, seed=5):
    """One episode as the vector emulator plays it, after a random start."""
    env = Atari(rom, 1, AtariConfig(fire_after_life=False), hide_score=True)
    rng = np.random.default_rng(seed)
    frames, actions = [env.reset(seed).frames[0].numpy()], rng.integers(env.n_actions, size=T)
    for action in actions:
        env.send(torch.tensor([int(action)]))
        frames.append(env.recv().frames[0].numpy())
    env.close()
    own_seed = int(np.random.SeedSequence(seed).generate_state(1)[0] >> 1)
    return RecordedEpisode(rom, AtariConfig(fire_after_life=False), True, own_seed, np.stack(frames), actions)


def played(emulator, start, actions):
    emulator.restore(start)
    for action in actions:
        screen, _ = emulator.decide(action)
    return emulator.frame(screen)


@pytest.mark.parametrize(("rom", "T"), [("breakout", 24), ("demon_attack", 16)])
def test_every_cell_and_lag_equals_the_definition_played_from_the_start_each_time(rom, T):
    recording = record(rom, T)
    changed = branch_episode(recording, GRID, LAGS)
    emulator = Emulator(rom, recording.config, hide_score=True, seed=recording.seed)
    start, actions = find_start(emulator, recording), recording.actions
    expected = np.zeros_like(changed)
    for t in range(1, T + 1):
        for n in range(1, min(t, LAGS) + 1):
            for other in set(range(len(emulator.actions))) - {int(actions[t - n])}:
                frame = played(emulator, start, [*actions[: t - n], other, *actions[t - n + 1 : t]])
                expected[t, n - 1] += any_in_cells(frame != recording.frames[t], *GRID)
    assert np.array_equal(changed, expected)
    assert changed[1:, 0].any()
    assert not changed[0].any()


def test_worker_processes_find_the_same_and_report_their_steps():
    recordings = [record("pong", 12, seed) for seed in (1, 2, 3)]
    heard = []
    alone = branch_episodes(recordings, GRID, LAGS, processes=1, progress=lambda done, of: heard.append((done, of)))
    assert heard[-1] == (36, 36)
    together = branch_episodes(recordings, GRID, LAGS, processes=2)
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one, other)


def test_an_episode_that_cannot_be_played_again_is_refused():
    recording = record("pong", 5)
    frames = recording.frames.copy()
    frames[3, 60, 40] ^= 1
    with pytest.raises(RunError, match="cannot be played again"):
        branch_episode(dataclasses.replace(recording, frames=frames), GRID, LAGS)
