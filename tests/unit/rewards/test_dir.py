"""Dir: direct control alone. The literal form is empty, and no form may pay for the start of an episode."""

import pytest
import torch

from megareward.reward_stream import RewardStream
from megareward.rewards import METHODS
from megareward.rewards.dir import Moved, Visited
from megareward.rewards.settings import DirConfig
from tests.unit.rewards.recordings import (
    HW,
    RESETS,
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


def attending(cells: list[list[int]], first=()) -> object:
    """All attention on one cell: (T+1, N) cells."""
    direct = torch.nn.functional.one_hot(torch.tensor(cells), HW).float()
    recorded = record(torch.zeros(*direct.shape[:2], 8, 8, dtype=torch.uint8), first=first, direct=direct)
    direct[recorded.first] = 0
    return recorded


def test_the_literal_form_pays_nothing_whatever_happens():
    direct = noise(first=()).fields["direct"]
    torch.testing.assert_close((direct[1:] - direct[:-1]).sum(-1), torch.zeros(T, N))


def test_the_positive_form_pays_for_the_attention_that_moved():
    direct = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.5, 0.3], [0.2, 0.5, 0.3], [0.0, 1.0, 0.0]])[:, None]  # (T+1, 1, HW)
    rewards = Moved().compute(record(torch.zeros(4, 1, 8, 8, dtype=torch.uint8), direct=direct))
    torch.testing.assert_close(rewards[:, 0], torch.tensor([0.3, 0.0, 0.5]))


def test_the_positive_form_is_half_the_distance_of_the_two_maps_and_at_most_1():
    recorded = noise(first=())
    direct = recorded.fields["direct"]
    rewards = Moved().compute(recorded)
    torch.testing.assert_close(rewards, (direct[1:] - direct[:-1]).abs().sum(-1) / 2)
    assert Moved().compute(attending([[0], [5], [5], [1]]))[:, 0].tolist() == [1, 0, 1]


def test_direct_control_appearing_at_the_start_of_an_episode_pays_nothing():
    """Otherwise every death would earn a point."""
    #                     the last frame, the first of the next episode, and on
    recorded = attending([[2, 2], [2, 2], [0, 2], [3, 2], [4, 2]], first=[(2, 0)])
    assert recorded.fields["direct"][2, 0].sum() == 0
    rewards = Moved().compute(recorded)
    assert rewards[:, 0].tolist() == [0, 0, 0, 1]  # into the reset, out of it, and a real move
    assert not rewards[:, 1].any()


def test_an_episode_that_starts_with_the_rollout_pays_nothing_at_once_either():
    assert Moved().compute(attending([[1], [1], [4]], first=[(0, 0)]))[:, 0].tolist() == [0, 1]


def test_dying_more_often_does_not_pay_more():
    """The same moves, once in one long episode and once in short ones."""
    moves = [[0], [1], [2], [3], [4], [5], [0], [1], [2]]
    long = Moved().compute(attending(moves, first=[(0, 0)])).sum()
    short = Moved().compute(attending(moves, first=[(0, 0), (3, 0), (6, 0)])).sum()
    assert short < long


def test_the_count_form_pays_1_over_the_root_of_the_visits_to_the_attended_cell():
    reward = Visited(world())
    recorded = attending([[0, 3], [0, 5], [0, 5], [2, 5], [0, 5]], first=[(3, 0)])
    assert reward.compute(recorded).eq(1).all()
    metrics = reward.update(recorded)
    # env 0 visits cell 0 three times, and its first frame nothing; env 1 visits cell 5 four times
    assert reward.visits[:HW].tolist() == [3, 0, 0, 0, 0, 4]
    assert metrics["cells"] == 2
    assert metrics["busiest"] == pytest.approx(4 / 7)
    again = reward.compute(recorded)
    torch.testing.assert_close(again[0], torch.tensor([4.0, 5.0]).rsqrt())
    assert (again[recorded.real] < 1).all()


@pytest.mark.parametrize("form", ["positive", "count"])
def test_computing_is_pure_counting_resumes_and_resets_do_not_matter(form):
    def make(world):
        [(_, reward)] = METHODS["dir"].build(DirConfig(form=form), world)
        return reward

    assert_computing_changes_nothing(make(world()), noise())
    assert_resumes(make)
    assert_resets_do_not_matter(make)
    assert_resets_alone_teach_nothing(make)


def test_what_the_map_shows_behind_a_reset_does_not_matter():
    """The tracker leaves zeros there; even if it did not, nothing would follow."""
    recorded, wild = noise(first=RESETS), noise(first=RESETS)
    wild.fields["direct"][wild.first] = torch.eye(HW)[2]
    for reward in (Moved(), Visited(world())):
        assert torch.equal(
            reward.compute(recorded)[recorded.real & ~recorded.first[:-1]],
            reward.compute(wild)[recorded.real & ~recorded.first[:-1]],
        )
    assert not Moved().compute(wild)[wild.first[:-1]].any()


def test_dir_needs_the_control_observer_and_is_episodic_like_mega():
    method = METHODS["dir"]
    assert "control" in method.observers
    assert not method.uses_score
    [(stream, reward)] = method.build(DirConfig(), world())
    assert stream == RewardStream("dir", discount=0.99, episodic=True, normalise=True)
    with pytest.raises(KeyError, match="direct"):
        reward.compute(record(torch.zeros(3, 1, 8, 8, dtype=torch.uint8)))
