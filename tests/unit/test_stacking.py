"""Stacks of frames against loops that walk back through an episode."""

import pytest
import torch

from megareward.stacking import pushed, stack_times

N = 3


def test_times_by_hand():
    """Frame 7 is the second of its episode, frame 2 the third."""
    assert stack_times(torch.tensor([7, 2]), torch.tensor([1, 2]), 3).tolist() == [[6, 6, 7], [0, 1, 2]]


@pytest.mark.parametrize("K", [1, 2, 4])
def test_a_stack_goes_back_frame_by_frame_but_never_past_the_first(K):
    times = torch.arange(12)
    starts = torch.tensor([0, 0, 0, 3, 3, 3, 3, 3, 8, 9, 9, 9])  # when the episode of each frame began
    expected = []
    for t, start in zip(times.tolist(), starts.tolist(), strict=True):
        stack = [t]
        while len(stack) < K:
            stack.insert(0, max(stack[0] - 1, start))
        expected.append(stack)
    assert stack_times(times, times - starts, K).tolist() == expected


@pytest.mark.parametrize("K", [1, 2, 4])
def test_pushing_frame_after_frame_gives_the_stacks_of_stack_times(K):
    generator = torch.Generator().manual_seed(0)
    frames = torch.randint(256, (15, N, 2, 5), dtype=torch.uint8, generator=generator)
    first = torch.rand(15, N, generator=generator) < 0.25
    first[0] = True
    stack, start = torch.zeros(N, K, 2, 5, dtype=torch.uint8), [0] * N
    for t in range(15):
        before = stack.clone()
        after = pushed(stack, frames[t], first[t])
        assert torch.equal(stack, before)  # it is not changed in place
        stack = after
        for n in range(N):
            start[n] = t if first[t, n] else start[n]
            times = stack_times(torch.tensor([t]), torch.tensor([t - start[n]]), K)[0]
            assert torch.equal(stack[n], frames[times, n])
