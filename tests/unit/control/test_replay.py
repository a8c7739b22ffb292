import pytest
import torch

from megareward.control.learning.replay import ReplayBuffer, StoredRollout, episode_starts
from megareward.errors import UsageError

T, N, P = 6, 3, 2


def rollout(first_at: list[tuple[int, int]], P: int = P, offset: int = 0) -> StoredRollout:
    """Every pixel of frame (t, n) is 10 * t + n (+ offset); actions and log policies are numbered the same
    way."""
    L = P + T + 1
    numbers = 10 * torch.arange(L)[:, None] + torch.arange(N) + offset
    first = torch.zeros(L, N, dtype=torch.bool)
    for t, n in first_at:
        first[t, n] = True
    actions = numbers[P:-1].clone()
    frames = numbers.to(torch.uint8)[..., None, None].expand(L, N, 4, 5).clone()
    return StoredRollout(frames, actions, first, torch.stack([actions, -actions], -1).float())


def test_no_transition_into_the_first_frame_of_an_episode_is_real():
    r = rollout(first_at=[(4, 1), (2, 0), (8, 2)])  # frame 2 of environment 0 is where the actions begin
    real = {tuple(row) for row in r.real().tolist()}
    everything = {(t, n) for t in range(P, P + T) for n in range(N)}
    assert real == everything - {(3, 1), (7, 2)}


def test_a_transition_is_its_stack_its_action_and_the_next_frame():
    r = rollout(first_at=[(4, 1)])
    replay = ReplayBuffer(size=1, stack=3)
    replay.add(*r)
    rows = r.real().tolist()
    batch = replay.gather(torch.tensor([rows.index(row) for row in ([5, 1], [2, 0], [4, 2], [4, 1])]))
    assert batch.stack[..., 0, 0].tolist() == [[41, 41, 51], [0, 10, 20], [22, 32, 42], [41, 41, 41]]
    assert batch.now[..., 0, 0].tolist() == [61, 30, 52, 51]
    assert batch.actions.tolist() == [51, 20, 42, 41]
    assert batch.log_policy.tolist() == [[51, -51], [20, -20], [42, -42], [41, -41]]
    assert batch.stack.shape == (4, 3, 4, 5)


def test_without_history_the_oldest_frame_stands_in_for_the_missing_ones():
    r = rollout(first_at=[], P=0)
    pictures = r.pictures(torch.tensor([[0, 2], [1, 2]]), K=4)
    shown = r.frames.flatten(0, 1)[pictures, 0, 0].tolist()
    assert shown == [[2, 2, 2, 2, 12], [2, 2, 2, 12, 22]]  # the stack, then the frame it led to


def test_every_frame_knows_when_its_episode_starts():
    first = torch.tensor([[False, True], [True, False], [False, False], [False, True]])
    assert episode_starts(first).tolist() == [[0, 0], [1, 0], [1, 0], [1, 3]]


def test_a_draw_takes_each_real_transition_of_the_newest_rollouts_at_most_once():
    replay = ReplayBuffer(size=2, stack=1)
    for i in range(3):
        replay.add(*rollout(first_at=[(4 + i, 1)], offset=100 * (i == 2)))
    rows = replay.draw(1.0, torch.Generator().manual_seed(0))
    assert len(rows) == len(set(rows.tolist())) == 2 * (T * N - 1)
    batch = replay.gather(rows)
    actions = sorted(batch.actions.tolist())
    expected = sorted(a for r in list(replay.rollouts) for a in (r.actions[t - P, n].item() for t, n in r.real()))
    assert actions == expected
    assert torch.equal(batch.stack[:, -1, 0, 0] + 10, batch.now[:, 0, 0])
    assert len(replay.draw(0.25, torch.Generator().manual_seed(0))) == round(0.25 * len(rows))


def test_batches_are_a_draw_in_parts_without_the_remainder():
    replay = ReplayBuffer(size=2, stack=1)
    for _ in range(2):
        replay.add(*rollout(first_at=[(4, 1)]))
    drawn = replay.draw(0.9, torch.Generator().manual_seed(3))
    parts = replay.batches(0.9, 7, torch.Generator().manual_seed(3))
    assert [len(part) for part in parts] == [7] * (len(drawn) // 7)
    for i, part in enumerate(parts):
        assert sorted(part.tolist()) == sorted(drawn[7 * i : 7 * i + 7].tolist())
        from_newer = part >= T * N - 1  # rollout by rollout
        assert torch.equal(from_newer, from_newer.sort().values)


@pytest.mark.parametrize(("n_real", "expected"), [(0, []), (1, []), (2, [2]), (5, [5]), (6, [6])])
def test_too_few_transitions_for_a_batch_make_a_smaller_one_but_one_alone_makes_none(n_real, expected):
    replay = ReplayBuffer(size=1, stack=1)
    r = rollout(first_at=[(t, n) for t in range(P + 1, P + T + 1) for n in range(N)][n_real:])
    replay.add(*r)
    assert [len(part) for part in replay.batches(1.0, 6, torch.Generator())] == expected


def test_flags_that_the_host_knows_already_give_the_same_transitions():
    r = rollout(first_at=[(4, 1), (7, 2)])
    without, given = ReplayBuffer(size=1, stack=2), ReplayBuffer(size=1, stack=2)
    without.add(*r)
    given.add(*r, first_on_cpu=r.first[P + 1 :].clone())
    assert all(torch.equal(one, two) for one, two in zip(without.table(), given.table(), strict=True))


def test_the_replay_keeps_copies():
    replay = ReplayBuffer(size=1, stack=1)
    r = rollout(first_at=[])
    replay.add(*r)
    r.frames.zero_()
    assert replay.rollouts[0].frames.max() > 0


def test_a_rollout_whose_parts_do_not_fit_is_refused():
    r = rollout(first_at=[])
    with pytest.raises(UsageError, match=r"6 actions came with 6 frames"):
        ReplayBuffer(1, 1).add(r.frames[-6:], r.actions, r.first[-6:])


def test_without_a_policy_all_actions_were_equally_likely():
    replay = ReplayBuffer(1, 1, n_actions=2)
    replay.add(*rollout(first_at=[])[:3])
    assert replay.gather(torch.tensor([3, 0])).log_policy.tolist() == [[0, 0], [0, 0]]


def of_two_actions(r: StoredRollout) -> StoredRollout:
    return r._replace(actions=r.actions % 2)


def test_a_loaded_replay_draws_what_the_saved_one_could_still_draw():
    """All but the oldest rollout, if it is full: the next one that is added pushes that one out."""
    for size, n_kept in ((3, 2), (2, 1)):
        saved, loaded = ReplayBuffer(size, 2, n_actions=2), ReplayBuffer(size, 2, n_actions=2)
        for i in range(2):
            saved.add(*of_two_actions(rollout(first_at=[(4 + i, 1)], offset=100 * i)))
        loaded.add(*of_two_actions(rollout(first_at=[])))  # forgotten
        loaded.load_state_dict(saved.state_dict(), torch.device("cpu"))
        assert len(loaded.rollouts) == n_kept
        for replay in (saved, loaded):
            replay.add(*rollout(first_at=[(6, 0)], offset=50))
        assert all(torch.equal(one, two) for one, two in zip(saved.table(), loaded.table(), strict=True))
