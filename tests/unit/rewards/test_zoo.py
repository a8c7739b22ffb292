"""The table of methods, and the rewards in it that need no learning."""

import dataclasses

import pytest
import torch

from megareward.errors import UsageError
from megareward.rewards import METHODS, find_method
from megareward.rewards.interface import Stateless
from megareward.rewards.settings import ExtrinsicConfig
from megareward.rollout import Recorded
from megareward.world import World

T, N, HEIGHT, WIDTH, A = 5, 3, 32, 36, 7
WORLD = World(N, A, (HEIGHT, WIDTH), torch.device("cpu"), seed=1)


def recorded(r_ext: torch.Tensor | None = None, first: tuple[tuple[int, int], ...] = ()) -> Recorded:
    flags = torch.zeros(T + 1, N, dtype=torch.bool)
    opens = flags.clone()
    for t, n in first:
        opens[t, n] = True
    return Recorded(
        frames=torch.zeros(T + 1, N, HEIGHT, WIDTH, dtype=torch.uint8),
        actions=torch.zeros(T, N, dtype=torch.int64),
        first=opens,
        terminated=flags,
        truncated=flags,
        r_ext=r_ext,
        fields={},
    )


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_listed_under_its_own_name_with_a_summary_and_frozen_settings(name):
    method = METHODS[name]
    assert method.name == name == name.lower()
    assert method.summary.endswith(".")
    assert dataclasses.is_dataclass(method.config)
    assert method.config.__dataclass_params__.frozen
    hash(method.config())  # immutable all the way down


@pytest.mark.parametrize("name", METHODS)
def test_every_method_builds_streams_of_different_names_from_its_defaults(name):
    method = METHODS[name]
    terms = method.build(method.config(), WORLD)
    names = [stream.name for stream, _ in terms]
    assert len(set(names)) == len(names)
    assert bool(terms) == method.trains_policy


def test_methods_are_found_in_any_case_and_near_misses_are_named():
    assert find_method("EXTRINSIC") is METHODS["extrinsic"]
    with pytest.raises(UsageError, match=r"no method 'randon'\. Did you mean random"):
        find_method("randon")


def test_a_step_into_a_first_frame_is_no_transition():
    fine = recorded(first=((0, 0), (3, 1), (5, 2))).real
    assert fine.shape == (T, N)
    assert (~fine).nonzero().tolist() == [[2, 1], [4, 2]]  # frame 0 opens an episode, but nothing leads into it


def extrinsic(**settings):
    [(stream, reward)] = METHODS["extrinsic"].build(ExtrinsicConfig(**settings), WORLD)
    assert not stream.normalise  # the paper's agent sees the score, or its sign, as it is
    return stream, reward


def test_the_extrinsic_reward_is_the_score_or_its_sign():
    score = torch.tensor([[0.0, 30.0, -0.5]]).repeat(T, 1)
    _, clipped = extrinsic()
    _, raw = extrinsic(clip="none")
    assert clipped.compute(recorded(score))[2].tolist() == [0.0, 1.0, -1.0]
    assert torch.equal(raw.compute(recorded(score)), score)


def test_the_extrinsic_stream_is_episodic_with_the_discount_asked_for():
    stream, _ = extrinsic(discount=0.9)
    assert stream.episodic
    assert stream.discount == 0.9
    with pytest.raises(UsageError, match=r"1\.5"):
        extrinsic(discount=1.5)


def test_the_extrinsic_reward_cannot_be_computed_without_a_recorded_score():
    _, reward = extrinsic()
    with pytest.raises(AssertionError, match="not recorded"):
        reward.compute(recorded(None))


def test_a_reward_without_state_refuses_one():
    reward = Stateless()
    assert reward.state_dict() == {}
    assert reward.update(recorded()) == {}
    reward.load_state_dict({})
    with pytest.raises(AssertionError, match="moments"):
        reward.load_state_dict({"moments": torch.zeros(1)})
