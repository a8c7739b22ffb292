"""Random network distillation: what wears off, what does not, and from which frames."""

import pytest
import torch

from megareward.errors import UsageError
from megareward.reward_stream import RewardStream
from megareward.rewards import METHODS
from megareward.rewards.rnd import RND
from megareward.rewards.settings import RndConfig
from tests.unit.rewards.recordings import (
    ATARI,
    RESETS,
    SMALL,
    N,
    T,
    assert_computing_changes_nothing,
    assert_resets_alone_teach_nothing,
    assert_resets_do_not_matter,
    assert_resumes,
    copied,
    noise,
    record,
    world,
)


def rnd(world, **settings) -> RND:
    return RND(RndConfig(**settings), world)


def bars(columns: range, T: int = 11, N: int = 3, seed: int = 0) -> torch.Tensor:
    """(T+1, N, 32, 36) frames with a bright bar in one of the columns."""
    column = torch.randint(columns.start, columns.stop, (T + 1, N, 1, 1), generator=torch.Generator().manual_seed(seed))
    bright = torch.arange(36).expand(T + 1, N, 32, 36) == column
    return bright.to(torch.uint8) * 200


@pytest.mark.parametrize("frame_shape", [SMALL, ATARI])
def test_computing_is_pure_and_learning_resumes_exactly(frame_shape):
    def make(world):
        return rnd(world, epochs=2, minibatches=2)

    reward = make(world(frame_shape))
    assert_computing_changes_nothing(reward, noise(frame_shape))
    reward.update(noise(frame_shape))
    assert_computing_changes_nothing(reward, noise(frame_shape))
    assert_resumes(make, frame_shape)


def test_frames_behind_a_reset_neither_pay_nor_teach():
    assert_resets_do_not_matter(rnd)
    assert_resets_alone_teach_nothing(rnd)


def test_the_reward_is_the_mean_squared_error_of_the_frame_a_transition_leads_to():
    reward, recorded = rnd(world()), noise()
    reward.update(noise(seed=1))
    rewards = reward.compute(recorded)
    mean, std = reward.moments.mean.float(), reward.moments.std.float()
    for t in range(T):
        for n in range(N):
            x = ((recorded.frames[t + 1, n].float() - mean) / std).clamp(-5, 5)[None, None]
            error = (reward.predictor(x) - reward.target(x))[0]
            torch.testing.assert_close(rewards[t, n], (error**2).sum() / len(error))


def test_before_the_first_update_nothing_is_known_and_nothing_pays():
    reward = rnd(world())
    assert not reward.compute(noise()).any()
    reward.update(noise())
    assert reward.compute(noise()).all()


def test_the_pixel_statistics_are_those_of_all_frames_real_transitions_led_to():
    reward = rnd(world())
    rollouts = [noise(seed=s) for s in (1, 2, 3)]
    for recorded in rollouts:
        reward.update(recorded)
    seen = torch.cat([r.frames[1:][r.real] for r in rollouts]).double()
    assert len(seen) == 3 * (T * N - 2)  # two of the three resets lie behind a step
    torch.testing.assert_close(reward.moments.mean, seen.mean(0))
    torch.testing.assert_close(reward.moments.std, seen.std(0, correction=0))


def test_a_pixel_that_changes_for_the_first_time_is_clipped_to_5():
    reward = rnd(world())
    frames = torch.full((T + 1, N, *SMALL), 87, dtype=torch.uint8)
    reward.update(record(frames))
    changed = frames[0].clone()
    changed[0, 4, 9], changed[1, 4, 9] = 88, 0
    scaled = reward.scaled(changed)
    assert scaled[0, 0, 4, 9] == 5
    assert scaled[1, 0, 4, 9] == -5
    assert scaled.count_nonzero() == 2


def test_what_is_seen_often_stops_paying_and_what_is_new_still_pays():
    reward = rnd(world(), learning_rate=2e-3)
    reward.update(record(bars(range(4, 16))))
    familiar, new = record(bars(range(4, 16), seed=50)), record(bars(range(20, 32), seed=51))
    at_first = reward.compute(familiar).mean()
    for seed in range(6):
        reward.update(record(bars(range(4, 16), seed=seed)))
    assert reward.compute(familiar).mean() < 0.1 * at_first
    assert reward.compute(familiar).mean() < 0.3 * reward.compute(new).mean()


def test_learning_changes_the_predictor_but_never_the_target():
    reward = rnd(world())
    target, predictor = copied(reward.target.state_dict()), copied(reward.predictor.state_dict())
    metrics = reward.update(noise())
    assert metrics["loss"] > 0
    assert all(torch.equal(target[name], now) for name, now in reward.target.state_dict().items())
    assert not any(torch.equal(predictor[name], now) for name, now in reward.predictor.state_dict().items())


def test_the_seed_decides_the_networks_and_the_global_random_state_stays():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    one, two, other = rnd(world()), rnd(world()), rnd(world(seed=2))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(one.target[0].weight, two.target[0].weight)
    assert not torch.equal(one.target[0].weight, other.target[0].weight)
    assert not torch.equal(one.target[0].weight, one.predictor[0][0].weight)


def test_more_environments_learn_from_a_smaller_share_unless_one_is_set():
    shares = {n_envs: rnd(world(n_envs=n_envs)).fraction for n_envs in (8, 32, 128)}
    assert shares == {8: 1.0, 32: 1.0, 128: 0.25}
    assert rnd(world(n_envs=128), update_fraction=0.5).fraction == 0.5
    with pytest.raises(UsageError, match=r"update-fraction is 1\.5"):
        RndConfig(update_fraction=1.5)


def test_only_the_share_asked_for_is_learnt_from():
    reward, recorded = rnd(world(), update_fraction=0.3, epochs=2, minibatches=2), noise()
    sizes = []
    plain = reward.error
    reward.error = lambda seen: (sizes.append(len(seen)), plain(seen))[1]
    reward.update(recorded)
    assert sizes == [2, 2, 2, 2]  # 0.3 of 13 real transitions is 4, in two halves, twice
    assert len(RESETS) == 3


def test_the_stream_follows_the_rule_for_death_and_is_scaled():
    [(stream, _)] = METHODS["rnd"].build(RndConfig(), world())
    assert stream == RewardStream("rnd", discount=0.99, episodic=True, normalise=True)
