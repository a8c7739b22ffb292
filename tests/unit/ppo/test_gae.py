"""GAE against closed forms and against the definition written as plain sums."""

import pytest
import torch

from megareward.ppo.gae import gae, real_transitions

T, N = 7, 3


def stream(**marks: list[tuple[int, int]]) -> dict[str, torch.Tensor]:
    """first, terminated, truncated of T+1 frames; marks name (t, n)."""
    flags = {name: torch.zeros(T + 1, N, dtype=torch.bool) for name in ("first", "terminated", "truncated")}
    flags["first"][0] = True
    for name, places in marks.items():
        for t, n in places:
            flags[name][t, n] = True
    return flags


def slow_episodic(rewards, values, first, terminated, truncated, discount, gae_lambda):
    """Sum over k of (discount * lambda)^k * error, until the episode ends, written out."""
    out = torch.zeros(T, N, dtype=rewards.dtype)
    for n in range(N):
        for t in range(T):
            if first[t + 1, n]:
                continue
            factor, k = 1.0, t
            while True:
                after = 0.0 if terminated[k + 1, n] else values[k + 1, n]
                out[t, n] += factor * (rewards[k, n] + discount * after - values[k, n])
                factor *= discount * gae_lambda
                k += 1
                if k == T or terminated[k, n] or truncated[k, n]:
                    break
    return out


def test_gae_equals_the_sum_of_discounted_errors_up_to_each_episodes_end(generator):
    flags = stream(terminated=[(3, 0), (5, 2)], truncated=[(4, 1)], first=[(4, 0), (5, 1)])  # env 2 only lost a life
    rewards = torch.randn(T, N, generator=generator, dtype=torch.float64)
    values = torch.randn(T + 1, N, generator=generator, dtype=torch.float64)
    fast = gae(rewards, values, **flags, discount=0.9, gae_lambda=0.8, episodic=True)
    torch.testing.assert_close(fast, slow_episodic(rewards, values, **flags, discount=0.9, gae_lambda=0.8))


def test_without_ends_and_with_lambda_1_the_advantage_is_the_discounted_return_minus_the_value(generator):
    rewards = torch.randn(T, N, generator=generator, dtype=torch.float64)
    values = torch.randn(T + 1, N, generator=generator, dtype=torch.float64)
    advantages = gae(rewards, values, **stream(), discount=0.5, gae_lambda=1.0, episodic=True)
    for t in range(T):
        returns = sum(0.5 ** (k - t) * rewards[k] for k in range(t, T)) + 0.5 ** (T - t) * values[T]
        torch.testing.assert_close(advantages[t], returns - values[t])


def test_termination_has_no_future_and_truncation_bootstraps_from_the_last_frame():
    rewards, values = torch.zeros(T, N), torch.full((T + 1, N), 10.0)
    flags = stream(terminated=[(2, 0)], truncated=[(2, 1)], first=[(3, 0), (3, 1)])
    advantages = gae(rewards, values, **flags, discount=0.5, gae_lambda=0.9, episodic=True)
    assert advantages[1, 0] == -10.0  # 0 + 0 - 10
    assert advantages[1, 1] == -5.0  # 0 + 0.5 * 10 - 10


@pytest.mark.parametrize("episodic", [True, False])
def test_a_transition_across_a_reset_has_no_advantage_and_its_reward_reaches_nobody(episodic):
    flags = stream(terminated=[(3, 0)], first=[(4, 0)])
    values = torch.randn(T + 1, N)
    rewards = torch.randn(T, N)
    poisoned = rewards.clone()
    poisoned[3, 0] = 1e6  # the reward of the step between the last frame and the first
    one = gae(rewards, values, **flags, discount=0.9, gae_lambda=0.8, episodic=episodic)
    two = gae(poisoned, values, **flags, discount=0.9, gae_lambda=0.8, episodic=episodic)
    assert torch.equal(one, two)
    assert one[3, 0] == 0.0
    assert not real_transitions(flags["first"])[3, 0]


def test_a_non_episodic_stream_equals_the_same_stream_with_the_reset_cut_out(generator):
    """The frames of two episodes, glued: last frame and first frame become one."""
    rewards = torch.randn(T, N, generator=generator, dtype=torch.float64)
    values = torch.randn(T + 1, N, generator=generator, dtype=torch.float64)
    flags = stream(terminated=[(3, n) for n in range(N)], first=[(4, n) for n in range(N)])
    advantages = gae(rewards, values, **flags, discount=0.9, gae_lambda=0.8, episodic=False)
    keep = torch.tensor([0, 1, 2, 4, 5, 6])
    no_ends = {name: torch.zeros(T, N, dtype=torch.bool) for name in ("first", "terminated", "truncated")}
    glued_values = torch.cat([values[keep], values[-1:]])
    glued = gae(rewards[keep], glued_values, **no_ends, discount=0.9, gae_lambda=0.8, episodic=False)
    torch.testing.assert_close(advantages[keep], glued)


def test_a_reward_moves_the_advantage_of_its_own_environment_only():
    values, flags = torch.randn(T + 1, N), stream()
    rewards = torch.zeros(T, N)
    moved = rewards.clone()
    moved[4, 1] = 1.0
    difference = gae(moved, values, **flags, discount=0.9, gae_lambda=0.9, episodic=True) - gae(
        rewards, values, **flags, discount=0.9, gae_lambda=0.9, episodic=True
    )
    assert (difference[:5, 1] != 0).all()
    assert (difference[:, [0, 2]] == 0).all()
    assert (difference[5:] == 0).all()


# Returns that are cut -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("episodic", [True, False])
def test_a_return_that_is_cut_is_that_of_two_streams_on_either_side(generator, episodic):
    """Before the cut it is a stream that ends there; after it, one that begins there."""
    at = 3
    rewards = torch.randn(T, N, generator=generator, dtype=torch.float64)
    values = torch.randn(T + 1, N, generator=generator, dtype=torch.float64)
    cut = torch.zeros(T + 1, N, dtype=torch.bool)
    cut[at] = True
    settings = {"discount": 0.9, "gae_lambda": 0.8}
    whole = gae(rewards, values, **stream(), **settings, episodic=episodic, cut=cut)
    ends = torch.zeros(at + 1, N, dtype=torch.bool)
    ends[at] = True
    no = torch.zeros_like(ends)
    before = gae(rewards[:at], values[: at + 1], no, ends, no, **settings, episodic=True)
    after = gae(
        rewards[at:], values[at:], *[torch.zeros(T - at + 1, N, dtype=torch.bool)] * 3, **settings, episodic=True
    )
    torch.testing.assert_close(whole, torch.cat([before, after]))


@pytest.mark.parametrize("episodic", [True, False])
def test_a_cut_at_the_first_frame_of_the_next_episode_lets_nothing_flow_back_into_the_last(generator, episodic):
    flags = stream(terminated=[(3, n) for n in range(N)], first=[(4, n) for n in range(N)])
    rewards = torch.randn(T, N, generator=generator, dtype=torch.float64)
    values = torch.randn(T + 1, N, generator=generator, dtype=torch.float64)
    settings = {"discount": 0.9, "gae_lambda": 0.8, "episodic": episodic, "cut": flags["first"]}
    one = gae(rewards, values, **flags, **settings)
    rewards[4:], values[4:] = 1e6, -1e6
    two = gae(rewards, values, **flags, **settings)
    assert torch.equal(one[:4], two[:4])
    assert not torch.equal(one[4:], two[4:])


def test_no_cut_and_a_cut_nowhere_are_the_same(generator):
    rewards, values = torch.randn(T, N, generator=generator), torch.randn(T + 1, N, generator=generator)
    flags = stream(terminated=[(3, 0)], truncated=[(4, 1)], first=[(4, 0), (5, 1)])
    for episodic in (True, False):
        settings = {"discount": 0.9, "gae_lambda": 0.8, "episodic": episodic}
        nowhere = torch.zeros(T + 1, N, dtype=torch.bool)
        assert torch.equal(
            gae(rewards, values, **flags, **settings), gae(rewards, values, **flags, **settings, cut=nowhere)
        )
