"""Counts against slow and exact ones: fractions for the pseudo-counts, a dictionary for the hashes."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import pytest
import torch

from megareward.errors import UsageError
from megareward.reward_stream import RewardStream
from megareward.rewards import METHODS
from megareward.rewards.count import BUCKET_BITS, LEVELS, PhiEB, SimHash, area_weights
from megareward.rewards.settings import CountConfig
from megareward.state import MismatchError
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
    world,
)


def phi_eb(world, **settings) -> PhiEB:
    return PhiEB(CountConfig(**settings), world)


def simhash(world, **settings) -> SimHash:
    return SimHash(CountConfig(kind="simhash", **{"normalise_frames": 13, **settings}), world)


@pytest.mark.parametrize("make", [phi_eb, simhash])
@pytest.mark.parametrize("frame_shape", [SMALL, ATARI])
def test_computing_is_pure_and_counting_resumes_exactly(make, frame_shape):
    reward = make(world(frame_shape))
    assert_computing_changes_nothing(reward, noise(frame_shape))
    reward.update(noise(frame_shape))
    assert_computing_changes_nothing(reward, noise(frame_shape))
    assert_resumes(make, frame_shape)


@pytest.mark.parametrize("make", [phi_eb, simhash])
def test_frames_behind_a_reset_neither_pay_nor_count(make):
    assert_resets_do_not_matter(make)
    assert_resets_alone_teach_nothing(make)


@pytest.mark.parametrize("make", [phi_eb, simhash])
def test_a_frame_pays_the_less_the_more_often_it_was_seen_in_any_environment(make):
    reward, recorded = make(world()), noise(first=())
    reward.update(noise(seed=1))  # simhash takes its scale from these
    paid = []
    for _ in range(4):
        paid.append(reward.compute(recorded))
        # the frames of env 0 are now seen in env 2
        reward.update(record(recorded.frames[:, [1, 1, 0]]))
    for before, after in itertools.pairwise(paid):
        assert (after[:, :2] < before[:, :2]).all()


# phi-EB --------------------------------------------------------------------------------------------------------------


def few_levels(seed: int, T: int = 4) -> torch.Tensor:
    """(T+1, N, 8, 11) frames of one pixel per patch, mostly dark, so that features come back."""
    random = torch.Generator().manual_seed(seed)
    bright = torch.rand(T + 1, N, 8, 11, generator=random) < 0.1
    return bright.to(torch.uint8) * 64


def exact_pseudo_count(bits: list[int], on: list[int], t: int) -> Fraction:
    """Martin et al. with whole numbers: no rounding, no logarithm."""
    rho = rho_after = Fraction(1)
    for bit, count in zip(bits, on, strict=True):
        same = count if bit else t - count
        rho *= Fraction(2 * same + 1, 2 * (t + 1))
        rho_after *= Fraction(2 * same + 3, 2 * (t + 2))
    return rho * (1 - rho_after) / (rho_after - rho)


def test_pseudo_counts_equal_the_formula_in_exact_fractions():
    reward = phi_eb(world((8, 11)))
    on, t = [0] * 704, 0
    for seed in range(5):
        recorded = record(few_levels(seed), first=((2, 1),))
        codes = reward.codes(recorded.frames[1:].flatten(0, 1))  # (T*N, 88)
        counts = reward.pseudo_count(codes).tolist()
        bonus = reward.compute(recorded).flatten().tolist()
        bits = torch.zeros(len(codes), 704, dtype=torch.int64).scatter_(1, codes, 1).tolist()
        for of_frame, count, paid in zip(bits, counts, bonus, strict=True):
            exact = float(exact_pseudo_count(of_frame, on, t))
            assert count == pytest.approx(exact, rel=1e-9)
            assert paid == pytest.approx(0.05 / math.sqrt(exact + 0.01), rel=1e-6)
        reward.update(recorded)
        for of_frame, real in zip(bits, recorded.real.flatten().tolist(), strict=True):
            if real:
                t += 1
                on = [count + bit for count, bit in zip(on, of_frame, strict=True)]
        assert reward.counts.tolist() == on
        assert reward.seen == t
    assert t == 5 * (4 * N - 1)


def test_a_frame_never_seen_pays_ten_times_beta_and_no_more():
    reward = phi_eb(world(), beta=0.3)
    torch.testing.assert_close(reward.compute(noise()), torch.full((T, N), 3.0))


def test_after_80m_frames_of_an_unchanging_screen_the_count_is_huge_but_a_number():
    reward = phi_eb(world())
    dark, bright = torch.zeros(1, *SMALL, dtype=torch.uint8), torch.full((1, *SMALL), 255, dtype=torch.uint8)
    reward.seen = torch.tensor(20_000_000)
    reward.counts[reward.codes(dark)[0]] = 20_000_000
    dark_count, bright_count = (float(reward.pseudo_count(reward.codes(frame))) for frame in (dark, bright))
    # by hand: 704 terms of 1 / (2 t^2), and rho' = (1 - 1 / (2 t))^704
    t = 2e7
    assert dark_count == pytest.approx((704 / (2 * t)) / (704 / (2 * t * t)), rel=1e-3)
    assert 0 <= bright_count < 1e-9


def test_the_features_are_the_grey_levels_of_8_by_11_patches():
    frames = torch.zeros(3, 16, 33, dtype=torch.uint8)
    frames[1] = 255
    frames[2, 2:4, 6:9] = 70  # the patch in row 1, column 2
    codes = phi_eb(world((16, 33))).codes(frames)
    assert codes.shape == (3, 88)
    assert torch.equal(codes[0], torch.arange(88) * LEVELS)
    assert torch.equal(codes[1], torch.arange(88) * LEVELS + 7)
    assert (codes[2] - codes[0]).nonzero().tolist() == [[13]]
    assert codes[2, 13] - codes[0, 13] == 70 // 32


@pytest.mark.parametrize("grey", [31, 32, 96, 223, 224])
def test_an_even_screen_has_one_level_everywhere_whatever_the_rounding(grey):
    frames = torch.full((2, *ATARI), grey, dtype=torch.uint8)
    levels = phi_eb(world(ATARI)).codes(frames) % LEVELS
    assert (levels == grey // 32).all()


def test_area_weights_give_the_mean_of_the_covered_area():
    x = torch.rand(84, generator=torch.Generator().manual_seed(0))
    for n_out in (8, 11, 42, 84):
        fine = x.repeat_interleave(n_out)  # 84 pixels cut so small that each output covers whole pieces
        torch.testing.assert_close(area_weights(n_out, 84) @ x, fine.view(n_out, 84).mean(1))


# SimHash -------------------------------------------------------------------------------------------------------------


def bits_of(reward: SimHash, frame: torch.Tensor) -> tuple[bool, ...]:
    """The side of each hyperplane, without packing."""
    scaled = (frame.float() - reward.normaliser.mean) / reward.normaliser.std
    small = reward.over_rows @ scaled @ reward.over_columns.T
    return tuple(float(plane @ small.flatten()) > 0 for plane in reward.planes)


def test_hash_counts_equal_those_of_a_dictionary():
    reward = simhash(world(), bits=9)
    reward.update(noise(seed=99))  # sets the scale and counts nothing yet
    assert not reward.counts.any()
    visits: Counter[tuple[bool, ...]] = Counter()
    for seed in range(12):
        recorded = noise(seed=seed)
        rewards = reward.compute(recorded)
        keys = {(t, n): bits_of(reward, recorded.frames[t + 1, n]) for t in range(T) for n in range(N)}
        for (t, n), key in keys.items():
            assert rewards[t, n] == pytest.approx(0.05 / math.sqrt(visits[key] + 1))
        metrics = reward.update(recorded)
        visits.update(key for (t, n), key in keys.items() if recorded.real[t, n])
        assert metrics["codes"] == len(visits)
        assert metrics["frames"] == visits.total()
    assert max(visits.values()) > 1


def test_a_checkpoint_holds_only_the_buckets_that_were_seen():
    one, two, old = (simhash(world(), bits=9) for _ in range(3))
    for seed in range(3):
        one.update(noise(seed=seed))
    state = one.state_dict()
    assert sum(tensor.nbytes for name, tensor in state.items() if name in ("index", "counts")) < 1000
    two.counts[5] = 7  # forgotten
    two.load_state_dict(state)
    before = {name: tensor for name, tensor in state.items() if name != "index"} | {"counts": one.counts.clone()}
    old.load_state_dict(before)  # as checkpoints were
    assert torch.equal(one.counts, two.counts)
    assert torch.equal(one.counts, old.counts)
    assert one.counts.any()
    with pytest.raises(MismatchError, match="does not fit"):
        two.load_state_dict(state | {"index": state["index"] - 2**22})


def test_64_bits_fit_and_similar_frames_share_more_bits_than_different_ones():
    reward = simhash(world(ATARI))
    frames = noise(ATARI, seed=1).frames[0]  # (N, 84, 84)
    near = frames.clone()
    near[:, 40:44, 40:44] = 0
    one, two = reward.hashes(frames), reward.hashes(near)
    assert one.dtype == torch.int64
    assert (one < 0).any() or (reward.hashes(noise(ATARI, seed=2).frames[1]) < 0).any()  # the 64th bit is the sign

    def differing(a: int, b: int) -> int:
        return bin((a ^ b) & (2**64 - 1)).count("1")

    assert all(differing(a, b) < 10 for a, b in zip(one.tolist(), two.tolist(), strict=True))


def test_every_hash_has_a_bucket_and_close_hashes_have_far_buckets():
    reward = simhash(world())
    hashes = torch.cat([torch.arange(1000), -torch.arange(1000) - 1, torch.tensor([2**63 - 1, -(2**63)])])
    reward.hashes = lambda frames: hashes
    buckets = reward.codes(torch.zeros(len(hashes), 1, 1, dtype=torch.uint8))[:, 0]
    assert buckets.min() >= 0
    assert buckets.max() < 2**BUCKET_BITS
    assert len(buckets.unique()) == len(hashes)


def test_the_stream_follows_the_rule_for_death_and_the_settings_are_checked():
    for kind, counter in (("phi-eb", PhiEB), ("simhash", SimHash)):
        [(stream, reward)] = METHODS["count"].build(CountConfig(kind=kind), world())
        assert isinstance(reward, counter)
        assert stream == RewardStream("count", discount=0.99, episodic=True, normalise=True)
    with pytest.raises(UsageError, match="bits is 65; use 1 to 64"):
        CountConfig(bits=65)
