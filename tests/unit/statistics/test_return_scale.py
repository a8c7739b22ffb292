"""The scale of a reward against its definition, written as plain loops."""

import math

import pytest
import torch

from megareward.statistics.return_scale import ReturnScale
from tests.unit.rewards.recordings import NoWaiting

T, N, DISCOUNT = 5, 3, 0.9
CPU = torch.device("cpu")


def rollouts(number: int = 4) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Rewards and which of them belong to a real transition; every environment on its own scale."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.tensor([0.1, 1.0, 7.0])
    return [
        (torch.randn(T, N, generator=generator) * sizes + 1, torch.rand(T, N, generator=generator) > 0.2)
        for _ in range(number)
    ]


def slow_stds(parts: list[tuple[torch.Tensor, torch.Tensor]]) -> list[float]:
    """After each rollout: the std of all discounted returns so far, filtered along time in each environment."""
    filtered, seen, stds = [0.0] * N, [], []
    for rewards, real in parts:
        for t in range(T):
            for n in range(N):
                if real[t, n]:
                    filtered[n] = DISCOUNT * filtered[n] + float(rewards[t, n])
                    seen.append(filtered[n])
        mean = sum(seen) / len(seen)
        stds.append(math.sqrt(sum((x - mean) ** 2 for x in seen) / len(seen)))
    return stds


def test_rewards_are_divided_by_the_std_of_the_return_filtered_over_time_in_each_environment():
    scale, parts = ReturnScale(N, DISCOUNT, CPU), rollouts()
    for (rewards, real), std in zip(parts, slow_stds(parts), strict=True):
        torch.testing.assert_close(scale.scale(rewards, real), rewards / std)
        assert float(scale.std) == pytest.approx(std, rel=1e-6)


def test_the_filter_runs_along_time_and_never_along_environments():
    scale = ReturnScale(N, DISCOUNT, CPU)
    rewards = torch.zeros(T, N)
    rewards[1, 2] = 1.0
    scale.scale(rewards, torch.ones(T, N, dtype=torch.bool))
    torch.testing.assert_close(scale.filtered, torch.tensor([0.0, 0.0, DISCOUNT**3]))


def test_the_order_of_environments_does_not_matter():
    order = [2, 0, 1]
    one, two = ReturnScale(N, DISCOUNT, CPU), ReturnScale(N, DISCOUNT, CPU)
    for rewards, real in rollouts():
        torch.testing.assert_close(one.scale(rewards, real)[:, order], two.scale(rewards[:, order], real[:, order]))
    torch.testing.assert_close(one.filtered[order], two.filtered)


def test_steps_that_are_no_transition_leave_no_trace_whatever_their_reward():
    with_resets, without = ReturnScale(N, DISCOUNT, CPU), ReturnScale(N, DISCOUNT, CPU)
    [(rewards, _)] = rollouts(1)
    real = torch.ones(T, N, dtype=torch.bool)
    reset = torch.full((1, N), 1e6)
    with_resets.scale(torch.cat([rewards[:2], reset, rewards[2:]]), torch.cat([real[:2], ~real[:1], real[2:]]))
    without.scale(rewards, real)
    assert with_resets.std == without.std
    assert torch.equal(with_resets.filtered, without.filtered)


def test_the_return_is_carried_on_across_rollouts():
    [(rewards, _)] = rollouts(1)
    real = torch.ones(T, N, dtype=torch.bool)
    whole, halves = ReturnScale(N, DISCOUNT, CPU), ReturnScale(N, DISCOUNT, CPU)
    whole.scale(rewards, real)
    halves.scale(rewards[:2], real[:2])
    halves.scale(rewards[2:], real[2:])
    torch.testing.assert_close(whole.std, halves.std)
    assert torch.equal(whole.filtered, halves.filtered)


def test_no_mean_is_taken_away_so_a_reward_keeps_its_sign_and_zero_stays_zero():
    scale, real = ReturnScale(N, DISCOUNT, CPU), torch.ones(T, N, dtype=torch.bool)
    assert not scale.scale(torch.zeros(T, N), real).any()
    for rewards, mask in rollouts():
        assert torch.equal(scale.scale(rewards, mask).sign(), rewards.sign())


def test_a_rollout_of_resets_only_is_passed_through():
    scale = ReturnScale(N, DISCOUNT, CPU)
    rewards = torch.ones(T, N)
    assert torch.equal(scale.scale(rewards, torch.zeros(T, N, dtype=torch.bool)), rewards)
    assert scale.count == 0


def test_the_scale_is_independent_of_the_size_of_the_reward():
    one, two = ReturnScale(N, DISCOUNT, CPU), ReturnScale(N, DISCOUNT, CPU)
    for rewards, real in rollouts():
        torch.testing.assert_close(one.scale(rewards, real), two.scale(1000 * rewards, real))


def test_the_state_holds_everything():
    one, two = ReturnScale(N, DISCOUNT, CPU), ReturnScale(N, DISCOUNT, CPU)
    parts = rollouts()
    for rewards, real in parts[:2]:
        one.scale(rewards, real)
    two.load_state_dict(one.state_dict())
    for rewards, real in parts[2:]:
        assert torch.equal(one.scale(rewards, real), two.scale(rewards, real))
    assert all(torch.equal(x, two.state_dict()[name]) for name, x in one.state_dict().items())


def test_scaling_does_not_wait_for_the_device():
    [(rewards, real)] = rollouts(1)
    with NoWaiting():
        ReturnScale(N, DISCOUNT, CPU).scale(rewards, real)


@pytest.mark.parametrize("wait", [lambda x: float(x[0]), lambda x: x[x > 0], lambda x: x.nonzero(), bool])
def test_the_guard_against_waiting_notices_one(wait):
    with pytest.raises(AssertionError, match="waits for the device"), NoWaiting():
        wait(torch.ones(1))
