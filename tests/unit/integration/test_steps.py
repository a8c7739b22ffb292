"""A user's steps as a stream of frames: nothing is lost, nothing is real that did not happen."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from megareward.integration.steps import Start, UserSteps, unfold

N, HW, SHAPE = 3, 5, (2, 4)


def random_steps(T: int, opens: torch.Tensor, seed: int) -> UserSteps:
    """Steps whose observations follow each other except where an episode opens."""
    random = torch.Generator().manual_seed(seed)

    def rand(*shape):
        return torch.rand(T, N, *shape, generator=random)

    after, fresh = (torch.randint(256, (T, N, *SHAPE), dtype=torch.uint8, generator=random) for _ in range(2))
    before, direct_after, g_after = fresh.clone(), rand(HW), rand(HW)
    direct_before, g_before = torch.zeros(T, N, HW), torch.zeros(T, N, HW)
    for t in range(1, T):
        goes_on = ~opens[t]
        before[t][goes_on] = after[t - 1][goes_on]
        direct_before[t][goes_on], g_before[t][goes_on] = direct_after[t - 1][goes_on], g_after[t - 1][goes_on]
    ends = torch.zeros(T, N, dtype=torch.bool)
    ends[:-1] = opens[1:]
    no = torch.zeros_like(ends)
    return UserSteps(
        before=before,
        after=after,
        actions=torch.randint(7, (T, N), generator=random),
        rewards=rand(),
        terminated=ends,
        truncated=no,
        opens=opens,
        first_before=opens,
        first_after=no,
        direct_before=direct_before,
        direct_after=direct_after,
        g_before=g_before,
        g_after=g_after,
        mega_reward=rand(),
    )


@given(st.integers(1, 8), st.integers(0, 2**24 - 1), st.integers(0, 99))
@settings(max_examples=80, deadline=None)
def test_every_step_is_one_real_transition_of_the_stream_and_there_are_no_others(T, bits, seed):
    opens = torch.tensor([[bool(bits >> (t * N + n) & 1) for n in range(N)] for t in range(T)])
    steps = random_steps(T, opens, seed)
    recorded, at = unfold(steps, shows_score=True)
    envs = torch.arange(N)
    assert torch.equal(recorded.frames[at, envs], steps.before)
    assert torch.equal(recorded.frames[at + 1, envs], steps.after)
    assert torch.equal(recorded.actions[at, envs], steps.actions)
    assert torch.equal(recorded.r_ext[at, envs], steps.rewards)
    assert torch.equal(recorded.first[at, envs], steps.opens)
    assert torch.equal(recorded.terminated[at + 1, envs], steps.terminated)
    assert torch.equal(recorded.fields["direct"][at, envs], steps.direct_before)
    assert torch.equal(recorded.fields["g"][at + 1, envs], steps.g_after)
    assert torch.equal(recorded.fields["mega_reward"][at + 1, envs], steps.mega_reward)
    real = torch.zeros_like(recorded.real)
    real[at, envs] = True
    assert torch.equal(recorded.real, real)  # exactly the steps
    assert recorded.terminated.sum() == steps.terminated.sum()
    assert len(recorded.actions) == T + int(opens[1:].sum(0).max() if T > 1 else 0)


def test_a_stream_without_ends_is_the_steps_themselves():
    steps = random_steps(4, torch.zeros(4, N, dtype=torch.bool), 0)
    recorded, at = unfold(steps)
    assert at.tolist() == [[t] * N for t in range(4)]
    assert torch.equal(recorded.frames, torch.cat([steps.before[:1], steps.after]))
    assert recorded.r_ext is None  # the score is not shown unless asked for


def test_the_picture_of_the_docstring():
    """Three steps of one environment with an end after the second."""
    opens = torch.zeros(3, N, dtype=torch.bool)
    opens[2, 0] = True
    recorded, at = unfold(random_steps(3, opens, 0))
    assert recorded.first[:, 0].int().tolist() == [0, 0, 0, 1, 0]
    assert recorded.real[:, 0].int().tolist() == [1, 1, 0, 1]
    assert at[:, 0].tolist() == [0, 1, 3]
    assert recorded.real[:, 1].int().tolist() == [1, 1, 1, 0]  # filled up behind its last frame


def test_the_history_knows_where_its_episodes_begin():
    ages = torch.tensor([0, 1, 3])
    start = Start(torch.zeros(3, N, *SHAPE, dtype=torch.uint8), ages, *torch.zeros(2, N, dtype=torch.bool))
    assert start.first.int().tolist() == [[0, 0, 1], [0, 0, 0], [0, 1, 0]]
