"""Stacks formed from unstacked frames, against the rule written as a plain loop over the whole stream."""

import pytest
import torch

from megareward.envs.interface import Step
from megareward.rollout import Decision, Field, Rollout
from megareward.world import World

T, N, HEIGHT, WIDTH, K, S, A = 5, 3, 6, 7, 4, 2, 8  # K frames in a stack, S streams, A actions
FIELDS = (Field("map", (6,), picture=(2, 3)), Field("skill", dtype=torch.int64))


def step(time: int, first: tuple[int, ...] = (), **others: tuple[int, ...]) -> Step:
    """Frame `time` of every environment is filled with the number 3 * time + n."""

    def flags(envs: tuple[int, ...]) -> torch.Tensor:
        return torch.tensor([n in envs for n in range(N)])

    numbers = N * time + torch.arange(N)
    return Step(
        frames=numbers.to(torch.uint8)[:, None, None].expand(N, HEIGHT, WIDTH),
        rewards=numbers.float() / 10,
        terminated=flags(others.get("terminated", ())),
        truncated=flags(others.get("truncated", ())),
        first=flags(first),
        episode_over=flags(others.get("terminated", ()) + others.get("truncated", ())),
    )


def empty(stack: int = K, keeps_score: bool = True) -> Rollout:
    world = World(N, A, (HEIGHT, WIDTH), torch.device("cpu"), seed=0)
    return Rollout(T, world, stack, fields=FIELDS, n_streams=S, keeps_score=keeps_score)


FIRST = {0: (0, 1, 2), 3: (1,), 5: (2,), 6: (0,), 7: (0,), 9: (1, 2), 10: (0,), 13: (2,)}
"""Environments whose episode opens at each time of three rollouts in a row; one-frame episodes and seams included."""


def expected_stack(time: int, n: int, stack: int) -> list[int]:
    """Walk back frame by frame; at the first frame of the episode, stay."""
    times = [time]
    while len(times) < stack:
        times.insert(0, times[0] if n in FIRST.get(times[0], ()) else times[0] - 1)
    return [N * t + n for t in times]


@pytest.mark.parametrize("stack", [1, 2, 4, 7])
def test_a_stack_never_reaches_across_a_first_frame_not_even_over_the_seam_of_two_rollouts(stack):
    rollout = empty(stack)
    rollout.show(0, step(0, FIRST[0]))
    for begin in (0, T, 2 * T):
        for t in range(T + 1):
            if t > 0:
                rollout.show(t, step(begin + t, FIRST.get(begin + t, ())))
            seen = rollout.stacks(rollout.index(t))
            assert seen.shape == (N, stack, HEIGHT, WIDTH)
            assert (seen == seen[..., :1, :1]).all()  # no frame was torn
            expected = [expected_stack(begin + t, n, stack) for n in range(N)]
            assert seen[..., 0, 0].tolist() == expected
        rollout.roll()


@pytest.mark.parametrize("stack", [1, 2, 4, 7])
def test_a_padded_stack_is_black_before_the_first_frame_of_an_episode(stack):
    """Written as the released code has it: what is kept of an environment is cleared when its episode opens."""
    rollout = empty(stack)
    kept = [[0] * stack for _ in range(N)]
    for time in range(3 * T + 1):
        t = (time - 1) % T + 1 if time else 0
        if t == 1 and time > 1:
            rollout.roll()
        rollout.show(t, step(time, FIRST.get(time, ())))
        for n in range(N):
            kept[n] = [*([0] * stack if n in FIRST.get(time, ()) else kept[n])[1:], N * time + n]
        seen = rollout.stacks(rollout.index(t), "zeros")
        assert seen.dtype == torch.uint8
        assert (seen == seen[..., :1, :1]).all()
        assert seen[..., 0, 0].tolist() == kept


def filled(**how: object) -> Rollout:
    rollout = empty(**how)
    for t in range(T + 1):
        rollout.show(t, step(t, FIRST.get(t, ())))
    return rollout


def test_stacks_of_any_samples_equal_the_stacks_of_their_moments():
    rollout = filled()
    index = torch.randperm(T * N)
    together = rollout.stacks(index)
    for row, i in zip(together, index.tolist(), strict=True):
        assert torch.equal(row, rollout.stacks(rollout.index(i // N))[i % N])


def test_the_moment_may_lie_on_the_device():
    rollout = filled()
    assert torch.equal(rollout.stacks(rollout.index(torch.tensor(4))), rollout.stacks(rollout.index(4)))


def test_decisions_are_written_to_their_own_moment_and_environment():
    rollout = filled()
    for t in range(T):
        numbers = N * t + torch.arange(N)
        log_policy = numbers[:, None] - torch.arange(float(A))
        values = numbers[:, None] + torch.tensor([0.0, 0.5])
        rollout.decide(numbers, Decision(numbers, -numbers.float(), values, log_policy))
    order = torch.arange(T * N).reshape(T, N)
    assert torch.equal(rollout.actions, order)
    assert torch.equal(rollout.log_probs, -order.float())
    assert torch.equal(rollout.values[:T], torch.stack([order, order + 0.5], dim=-1))
    assert torch.equal(rollout.log_policy, order[..., None] - torch.arange(float(A)))


def test_fields_are_written_to_their_own_moment_and_environment_and_the_newest_is_kept():
    rollout = filled()
    for t in range(T + 1):
        numbers = N * t + torch.arange(N)
        rollout.record(numbers, {"map": numbers[:, None] + torch.arange(6.0) / 10, "skill": numbers})
    order = torch.arange((T + 1) * N).reshape(T + 1, N)
    recorded = rollout.recorded()
    assert torch.equal(recorded.fields["skill"], order)
    assert torch.equal(recorded.fields["map"], order[..., None] + torch.arange(6.0) / 10)
    assert torch.equal(rollout.field("skill", torch.tensor([7, 4])), torch.tensor([7, 4]))
    rollout.roll()
    restored = empty()
    restored.load_state_dict(rollout.state_dict())
    for r in (rollout, restored):
        assert torch.equal(r.fields["skill"][0], order[T])
        assert torch.equal(r.fields["map"][0], recorded.fields["map"][T])


def test_two_fields_of_one_name_are_refused():
    world = World(N, A, (HEIGHT, WIDTH), torch.device("cpu"), seed=0)
    with pytest.raises(ValueError, match="same name"):
        Rollout(T, world, K, fields=[Field("g"), Field("g")])


@pytest.mark.parametrize(("size", "exact"), [((6, 9), True), ((5, 7), False)])
def test_a_map_is_painted_cell_by_cell_in_its_scale(size, exact):
    field = Field("map", (6,), picture=(2, 3), scale=0.5)
    values = torch.arange(12.0).reshape(2, 6)
    painted = field.painted(values, size)
    assert painted.shape == (2, *size)
    for h in range(size[0]):
        for w in range(size[1]):
            cell = (h * 2 // size[0]) * 3 + w * 3 // size[1]
            assert painted[1, h, w] == values[1, cell] / 2
    with pytest.raises(ValueError, match="vector"):
        Field("number").painted(values, size)


def test_what_is_recorded_is_frame_action_next_frame_and_the_reward_between_them():
    rollout = empty()
    for t in range(T + 1):
        marks = {"terminated": (0,)} if t == 2 else {"truncated": (1,)} if t == 4 else {}
        rollout.show(t, step(t, (0,) if t == 3 else (), **marks))
    recorded = rollout.recorded()
    assert recorded.frames.shape == (T + 1, N, HEIGHT, WIDTH)
    assert recorded.frames[:, :, 0, 0].tolist() == torch.arange((T + 1) * N).reshape(T + 1, N).tolist()
    torch.testing.assert_close(recorded.r_ext, torch.arange(N, (T + 1) * N).reshape(T, N) / 10)
    assert recorded.terminated.nonzero().tolist() == [[2, 0]]
    assert recorded.truncated.nonzero().tolist() == [[4, 1]]
    assert (~recorded.real).nonzero().tolist() == [[2, 0]]  # the step from the last frame 2 to the first frame 3


def test_a_method_that_must_not_see_the_score_finds_none():
    assert filled(keeps_score=False).recorded().r_ext is None


def test_a_restored_rollout_goes_on_as_if_it_had_never_stopped():
    rollout = filled()
    rollout.roll()
    restored = empty()
    restored.load_state_dict(rollout.state_dict())
    for r in (rollout, restored):
        for t in range(1, T + 1):
            r.show(t, step(T + t, FIRST.get(T + t, ())))
    everything = torch.arange((T + 1) * N)
    assert torch.equal(rollout.stacks(everything), restored.stacks(everything))
    assert torch.equal(rollout.flags, restored.flags)


def test_the_state_is_a_copy():
    rollout = filled()
    rollout.roll()
    state = rollout.state_dict()
    before = {name: tensor.clone() for name, tensor in state.items()}
    rollout.show(0, step(50, (0, 2), terminated=(1,)))
    assert all(torch.equal(state[name], before[name]) for name in state)
