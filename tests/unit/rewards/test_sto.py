"""Sto: how much a frame tells about the code that led to it, by a network and by counts."""

import math
from dataclasses import replace

import pytest
import torch

from megareward.rewards import METHODS
from megareward.rewards.settings import StoConfig
from megareward.rewards.sto import Counts, Discriminator
from tests.unit.rewards.recordings import (
    ATARI,
    SMALL,
    N,
    T,
    assert_computing_changes_nothing,
    assert_resets_alone_teach_nothing,
    assert_resets_do_not_matter,
    assert_resumes,
    noise,
    record,
    with_skills,
    world,
)

K = 3


def skilled(frame_shape=SMALL, seed=0, **marks):
    return with_skills(noise(frame_shape, seed, **marks), K, seed=seed)


def discriminator(world, **settings) -> Discriminator:
    return Discriminator(StoConfig(n_skills=K, minibatches=2, **settings), world)


def counts(world) -> Counts:
    return Counts(StoConfig(n_skills=K, information="counts"), world)


def obedient(steps: int, n_envs: int = 6, seed: int = 0):
    """Code k makes the next frame show a bar in place k, and nothing else ever happens."""
    random = torch.Generator().manual_seed(seed)
    skill = torch.randint(K, (steps + 1, n_envs), generator=random)
    shown = torch.cat([torch.zeros(1, n_envs, dtype=torch.int64), skill[:-1]])
    bright = torch.arange(36).expand(steps + 1, n_envs, 32, 36) // 12 == shown[..., None, None]
    recorded = record(bright.to(torch.uint8) * 200)
    return replace(recorded, fields={"skill": skill})


@pytest.mark.parametrize("make", [discriminator, counts])
@pytest.mark.parametrize("frame_shape", [SMALL, ATARI])
def test_computing_is_pure_and_learning_resumes_exactly(make, frame_shape):
    assert_computing_changes_nothing(make(world(frame_shape)), skilled(frame_shape))
    if make is discriminator:
        assert_resumes(make, frame_shape, skilled)


@pytest.mark.parametrize("make", [discriminator, counts])
def test_frames_behind_a_reset_neither_pay_nor_teach(make):
    assert_resets_do_not_matter(make, noise=skilled)
    assert_resets_alone_teach_nothing(make, noise=skilled)


def test_a_frame_that_says_nothing_pays_nothing_and_one_that_says_all_pays_log_k():
    reward = discriminator(world(n_envs=6), learning_rate=1e-3, epochs=4)
    assert reward.compute(obedient(20)).abs().max() < 0.2
    for seed in range(30):
        metrics = reward.update(obedient(20, seed=seed))
    paid = reward.compute(obedient(20, seed=100))
    torch.testing.assert_close(paid, torch.full_like(paid, math.log(K)), rtol=0.05, atol=0.0)
    assert metrics["accuracy"] == 1.0
    betrayed = obedient(20, seed=100)
    betrayed.fields["skill"].add_(1).remainder_(K)  # the frame speaks of another code
    assert reward.compute(betrayed).max() < -1.0


def test_the_code_that_counts_is_the_one_by_which_the_step_was_made():
    """That of the frame before, not the one drawn at the frame it leads to."""
    reward, recorded = discriminator(world()), skilled()
    reward.update(recorded)
    paid = reward.compute(recorded)
    for t in range(T):
        for n in range(N):
            with torch.no_grad():
                probability = reward.logits(recorded.frames[t + 1, n][None]).softmax(-1)[0]
            expected = math.log(float(probability[recorded.fields["skill"][t, n]]) * K)
            assert float(paid[t, n]) == pytest.approx(expected, abs=1e-4)


def test_counts_are_those_of_the_rollout_written_out():
    levels = torch.randint(3, (T + 1, N, 1, 1), generator=torch.Generator().manual_seed(3)) * 80
    recorded = with_skills(record((levels.expand(-1, -1, *SMALL)).to(torch.uint8), first=[(0, 0), (3, 1)]), K)
    paid, skill = counts(world()).compute(recorded), recorded.fields["skill"]
    for t in range(T):
        for n in range(N):
            same = (levels[1:, :, 0, 0] == levels[t + 1, n, 0, 0]) & recorded.real
            visits, own = int(same.sum()), int((same & (skill[:-1] == skill[t, n])).sum())
            assert float(paid[t, n]) == pytest.approx(math.log((own + 1) / (visits + K) * K), abs=1e-5)


@pytest.mark.parametrize("information", ["discriminator", "counts"])
def test_the_return_ends_with_the_code(information):
    [(stream, _)] = METHODS["sto"].build(StoConfig(information=information), world())
    assert stream.cut_at == "skill_drawn"
    assert stream.normalise
