"""Raw scores of whole games, added up from a stream of steps."""

import json

import pytest
import torch

from megareward.envs.interface import Step
from megareward.statistics.scores import RECENT
from megareward.training.score_book import Episode, ScoreBook

N = 3


def step(rewards: list[float], over: tuple[int, ...] = (), cut: tuple[int, ...] = (), first: tuple[int, ...] = ()):
    def flags(envs: tuple[int, ...]) -> torch.Tensor:
        return torch.tensor([n in envs for n in range(N)])

    return Step(
        frames=torch.zeros(N, 2, 2, dtype=torch.uint8),
        rewards=torch.tensor(rewards),
        terminated=flags(over),
        truncated=flags(cut),
        first=flags(first),
        episode_over=flags(over + cut),
    )


def test_each_game_is_the_sum_of_its_own_raw_rewards():
    book = ScoreBook(N)
    book.record(step([7.0, 0.0, -1.0]))
    book.record(step([0.0, 100.0, -1.0], over=(2,)))
    book.record(step([0.5, 0.0, 0.0], first=(2,)))
    book.record(step([0.0, 0.0, 30.0], over=(0, 2)))
    assert book.close(frames=1000, frames_per_step=12) == [
        Episode(frames=1024, score=-2.0, steps=2, env=2, cut=False),
        Episode(frames=1048, score=7.5, steps=4, env=0, cut=False),
        Episode(frames=1048, score=30.0, steps=1, env=2, cut=False),  # the frame that opened it was no decision
    ]
    assert book.mean == pytest.approx((-2 + 7.5 + 30) / 3)
    assert book.episodes == 3


def test_a_game_goes_on_over_the_end_of_a_rollout():
    book = ScoreBook(N)
    book.record(step([1.0, 2.0, 3.0]))
    assert book.close(0, N) == []
    book.record(step([10.0, 20.0, 30.0], over=(1,)))
    assert book.close(N, N) == [Episode(frames=2 * N, score=22.0, steps=2, env=1, cut=False)]
    assert book.close(2 * N, N) == []


def test_a_time_limit_is_marked_and_a_lost_life_ends_no_game():
    book = ScoreBook(N)
    life_lost = step([1.0, 1.0, 1.0])
    life_lost = Step(**{**vars(life_lost), "terminated": torch.tensor([True, False, False])})
    book.record(life_lost)
    book.record(step([1.0, 1.0, 1.0], cut=(0,), over=(1,)))
    assert [(e.env, e.score, e.cut) for e in book.close(0, 1)] == [(0, 2.0, True), (1, 2.0, False)]


def test_large_scores_are_added_exactly():
    """Float32 would lose the 1 beside 2^24."""
    book = ScoreBook(N)
    book.record(step([2.0**24, 0.0, 0.0]))
    book.record(step([1.0, 0.0, 0.0], over=(0,)))
    assert book.close(0, 1)[0].score == 2**24 + 1


def test_the_mean_is_of_the_last_50_games():
    book = ScoreBook(N)
    assert book.mean is None
    for score in range(70):
        book.record(step([float(score), 0.0, 0.0], over=(0,)))
    book.close(0, 1)
    assert RECENT == 50
    assert book.mean == sum(range(20, 70)) / 50
    assert book.episodes == 70


@pytest.mark.parametrize("same_games", [True, False])
def test_a_restored_book_remembers_half_games_only_if_they_go_on(same_games):
    book = ScoreBook(N)
    book.record(step([0.1, 0.2, 0.3], over=(1,)))
    book.close(0, N)
    restored = ScoreBook(N)
    restored.load_state(json.loads(json.dumps(book.state())), same_games=same_games)
    assert (restored.mean, restored.episodes) == (book.mean, 1)
    restored.record(step([1.0, 1.0, 1.0], over=(0, 1, 2)))
    book.record(step([1.0, 1.0, 1.0], over=(0, 1, 2)))
    after, uninterrupted = restored.close(N, N), book.close(N, N)
    if same_games:
        assert after == uninterrupted
    else:
        assert [(e.score, e.steps) for e in after] == [(1.0, 1)] * 3
