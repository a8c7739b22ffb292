"""Div: blocks, distances between changes, and what the others were predicted to do."""

import math

import pytest
import torch

from megareward.errors import UsageError
from megareward.rewards import METHODS
from megareward.rewards.div import Diversity, Predictor, blocks_of, distance, mass_centre
from megareward.rewards.settings import DivConfig
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

K, SPANS = 3, (2, 4)


def skilled(frame_shape=SMALL, seed=0, **marks):
    return with_skills(noise(frame_shape, seed, **marks), K, SPANS, seed)


def diversity(world, level=0, **settings) -> Diversity:
    return Diversity(DivConfig(n_skills=K, holds=(2, 2), **settings), world, level)


@pytest.mark.parametrize("kind", ["mass-centre", "l2"])
@pytest.mark.parametrize("frame_shape", [SMALL, ATARI, (40, 33)])
def test_computing_is_pure_and_learning_resumes_exactly(kind, frame_shape):
    def make(world):
        return diversity(world, distance=kind, epochs=1)

    reward = make(world(frame_shape))
    reward.update(skilled(frame_shape))
    assert_computing_changes_nothing(reward, skilled(frame_shape))
    assert_resumes(make, frame_shape, skilled)


@pytest.mark.parametrize("level", [0, 1])
def test_frames_behind_a_reset_neither_pay_nor_teach(level):
    assert_resets_do_not_matter(lambda world: diversity(world, level), noise=skilled)
    assert_resets_alone_teach_nothing(lambda world: diversity(world, level), noise=skilled)


@pytest.mark.parametrize("level", [0, 1])
def test_a_block_counts_if_it_lasted_its_whole_time_inside_one_episode(level):
    """Written out: (start, end) of every block in every environment."""
    recorded = skilled()
    recorded.terminated[4, 0] = True  # a block that ends with the game does not count either
    blocks, span, whole = blocks_of(recorded, level, SPANS[level]), SPANS[level], set()
    name = "skill_1" if level else "skill"
    for n in range(N):
        for t in range(T + 1 - span):
            begins = bool(recorded.fields[f"{name}_drawn"][t, n])
            inside = not recorded.first[t + 1 : t + span + 1, n].any()
            if begins and inside and not recorded.terminated[t + span, n]:
                whole.add((n, t, t + span))
    found = {
        (n, int(blocks.time[e, n]) + 1 - span, int(blocks.time[e, n]) + 1)
        for e in range(len(blocks.time))
        for n in range(N)
        if blocks.valid[e, n]
    }
    assert found == whole
    assert whole
    for n, begin, end in whole:
        [e] = [e for e in range(len(blocks.time)) if blocks.valid[e, n] and int(blocks.time[e, n]) + 1 == end]
        assert torch.equal(blocks.start[e, n], recorded.frames[begin, n])
        assert torch.equal(blocks.end[e, n], recorded.frames[end, n])
        assert blocks.skill[e, n] == recorded.fields[name][begin, n]


def test_a_reward_is_paid_at_the_end_of_a_block_and_nowhere_else():
    recorded = skilled()
    paid, blocks = diversity(world()).compute(recorded), blocks_of(recorded, 0, 2)
    ends = torch.zeros(T, N, dtype=torch.bool).scatter_(0, blocks.time, blocks.valid)
    assert torch.equal(paid != 0, ends)


@pytest.mark.parametrize("kind", ["mass-centre", "l2"])
def test_it_is_the_distance_to_the_nearest_of_the_others_less_what_was_expected(kind):
    reward, recorded = diversity(world(), distance=kind), skilled()
    reward.update(skilled(seed=1))
    paid, blocks = reward.compute(recorded), blocks_of(recorded, 0, 2)
    for e in range(len(blocks.time)):
        for n in range(N):
            if not blocks.valid[e, n]:
                continue
            changed = (blocks.end[e, n].float() - blocks.start[e, n].float()) / 255
            distances, expected = [], 0.0
            for skill in range(K):
                with torch.no_grad():
                    foreseen, bounty = reward.predictor(blocks.start[e, n][None], torch.tensor([skill]))
                if skill == blocks.skill[e, n]:
                    expected = float(bounty) * float(reward.moments.std)
                else:
                    distances.append(float(distance(changed[None], foreseen, kind)))
            assert float(paid[blocks.time[e, n], n]) == pytest.approx(min(distances) - expected, abs=1e-4)


def test_the_centre_of_mass_moves_with_what_moves():
    change = torch.zeros(2, 10, 12)
    change[:, 2, 3], change[0, 2, 7], change[1, 6, 3] = -1.0, 1.0, 1.0  # it went from (2, 3) right, and down
    still, moved = mass_centre(torch.zeros(1, 10, 12))[0], mass_centre(change)
    assert still.tolist() == [4.5, 5.5]
    step = 4 / 120  # half of a bright pixel's way of 4, twice over, in a mass of half of 120
    torch.testing.assert_close(moved - still, torch.tensor([[0.0, step], [step, 0.0]]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("frame_shape", [SMALL, ATARI, (40, 33), (18, 18)])
def test_any_pixel_of_the_predicted_change_can_depend_on_the_code(frame_shape):
    """A place that cannot be predicted would be a place to hide in."""
    frame = torch.randint(256, (1, *frame_shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    change, bounty = Predictor(frame_shape, K)(frame.expand(2, -1, -1), torch.tensor([0, 2]))
    assert change.shape == (2, *frame_shape)
    assert bounty.shape == (2,)
    assert (change[0] != change[1]).all()


def test_the_predictor_learns_what_each_code_does():
    """Code k brings up a bar in place k. Then no code is mistaken for another, and what comes is what was expected."""
    reward = diversity(world(n_envs=12), learning_rate=3e-3, epochs=8)

    def rollout(seed):
        dark = with_skills(record(torch.zeros(2 + 1, 12, *SMALL, dtype=torch.uint8)), K, (2,), seed)
        places = torch.arange(SMALL[1]) // 12 == dark.fields["skill"][1, :, None]  # (N, px_w)
        dark.frames[2] = places[:, None].expand(-1, SMALL[0], -1).to(torch.uint8) * 200
        return dark

    for seed in range(60):
        metrics = reward.update(rollout(seed))
    assert metrics["loss"] < 0.1 * metrics["copy_loss"]
    assert metrics["bounty_loss"] < 0.2
    recorded = rollout(100)
    right = reward.distances(blocks_of(recorded, 0, 2))[0].mean()
    recorded.fields["skill"].add_(1).remainder_(K)  # it did what another one does
    wrong = reward.distances(blocks_of(recorded, 0, 2))[0].mean()
    assert wrong < 0.3 * right


def test_levels_have_time_scales_of_their_own():
    assert DivConfig(holds=(8, 4)).spans == (8, 32)
    assert DivConfig(holds=(3,)).spans == (3,)
    [(stream, _)] = METHODS["div"].build(DivConfig(), world())
    assert stream.cut_at == "skill_drawn"


@pytest.mark.parametrize("bad", [{"n_skills": 1}, {"holds": ()}, {"holds": (8, 0)}, {"batch": 0}, {"epochs": 0}])
def test_settings_that_make_no_sense_are_refused_by_name(bad):
    with pytest.raises(UsageError, match=f"--reward.{next(iter(bad)).replace('_', '-')} is"):
        DivConfig(**bad)


def test_no_blocks_no_metrics_that_are_not_numbers():
    reward = diversity(world(), level=1)
    recorded = with_skills(noise(first=[(t, 0) for t in range(T + 1)]), K, (2, 99))
    assert all(math.isfinite(float(value)) for value in reward.update(recorded).values())
