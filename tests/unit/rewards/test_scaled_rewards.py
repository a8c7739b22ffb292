"""The rewards of a method as the loop uses them: masked at resets, scaled where the stream asks for it, saved."""

from collections.abc import Mapping
from types import SimpleNamespace

import pytest
import torch

from megareward.reward_stream import RewardStream
from megareward.rewards.interface import Reward, RewardTerm, ScaledRewards, Stateless
from megareward.rollout import Recorded
from megareward.statistics.return_scale import ReturnScale
from tests.unit.rewards.recordings import RESETS, N, T, assert_equal, copied, noise

CPU = torch.device("cpu")
NORMALISED, PLAIN = RewardStream("normalised", 0.9, normalise=True), RewardStream("plain", 0.5)


class Brightness(Stateless):
    """The mean of the frame that a transition leads to."""

    def compute(self, recorded: Recorded) -> torch.Tensor:
        return recorded.frames[1:].float().mean((-1, -2))


class Counted:
    """The number of rollouts it has learnt from."""

    def __init__(self) -> None:
        self.rollouts = torch.zeros(())

    def compute(self, recorded: Recorded) -> torch.Tensor:
        return self.rollouts.expand(recorded.actions.shape).clone()

    def update(self, recorded: Recorded) -> dict[str, torch.Tensor]:
        self.rollouts = self.rollouts + 1
        return {"rollouts": self.rollouts}

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"rollouts": self.rollouts}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        self.rollouts = state["rollouts"].clone()


def make() -> ScaledRewards:
    terms: list[tuple[RewardStream, Reward]] = [(NORMALISED, Brightness()), (PLAIN, Counted())]
    return ScaledRewards([RewardTerm(*term) for term in terms], N, CPU)


def test_each_stream_has_its_reward_and_a_reset_earns_nothing_whatever_it_shows():
    rewards, recorded = make(), noise(first=RESETS)
    rewards.update(recorded)
    bright, counted = rewards.compute(recorded)
    real = recorded.real
    assert not real.all()
    assert torch.equal(bright, torch.where(real, Brightness().compute(recorded), 0.0))
    assert torch.equal(counted, real.float())
    assert rewards.streams == [NORMALISED, PLAIN]


def test_only_a_stream_that_asks_for_it_is_divided_by_the_running_std_of_its_return():
    rewards, scale = make(), ReturnScale(N, NORMALISED.discount, CPU)
    for seed in range(3):
        recorded = noise(seed=seed)
        raw = rewards.compute(recorded)
        scaled = rewards.scale(raw, recorded)
        assert torch.equal(scaled[0], scale.scale(raw[0], recorded.real))
        assert torch.equal(scaled[1], raw[1])
        assert not torch.equal(scaled[0], raw[0])
        rewards.update(recorded)


def test_scaling_aside_gives_the_same_numbers_and_leaves_no_trace():
    rewards = make()
    rewards.scale(rewards.compute(noise()), noise())
    recorded, before = noise(seed=1), copied(rewards.state_dict())
    raw = rewards.compute(recorded)
    aside = rewards.scale_without_learning(raw, recorded)
    assert_equal(before, rewards.state_dict())
    for one, two in zip(aside, rewards.scale(raw, recorded), strict=True):
        assert torch.equal(one, two)
    assert not torch.equal(before["scale.0.filtered"], rewards.state_dict()["scale.0.filtered"])


def test_scales_that_have_seen_a_rollout_already_divide_it_as_they_are():
    rewards, recorded = make(), noise()
    raw = rewards.compute(recorded)
    scaled = rewards.scale(raw, recorded)
    before = copied(rewards.state_dict())
    for one, two in zip(rewards.scale_as_is(raw), scaled, strict=True):
        assert torch.equal(one, two)
    assert_equal(before, rewards.state_dict())


def test_paid_step_by_step_a_scale_first_looks_at_some_transitions_from_the_first_that_is_worth_anything():
    rewards, scale = make(), ReturnScale(N, NORMALISED.discount, CPU)
    real = torch.ones(1, N, dtype=torch.bool)
    recorded = SimpleNamespace(real=real)
    nothing = [torch.zeros(1, N), torch.ones(1, N)]
    for _ in range(7):  # not counted, and so not taken for rewards that hardly differ
        assert not rewards.scale_at_once(nothing, recorded, settle_steps=4)[0].any()
    for t in range(8):
        raw = torch.arange(1.0, N + 1)[None] + t
        scaled, plain = rewards.scale_at_once([raw, raw], recorded, settle_steps=4)
        expected = scale.scale(raw, real)
        assert torch.equal(scaled, expected if t >= 4 else torch.zeros(1, N))
        assert torch.equal(plain, raw)


def test_learning_names_each_metric_by_its_stream():
    assert make().update(noise()) == {"plain/rollouts": torch.tensor(1.0)}


def test_beside_other_environments_rewards_are_shared_and_scales_are_not():
    rewards = make()
    beside = rewards.beside(N + 1)
    beside.update(noise())
    assert rewards.compute(noise())[1].max() == 1  # what is learnt there is known here
    rewards.scale(rewards.compute(noise()), noise())
    assert not beside.state_dict()["scale.0.filtered"].any()
    assert len(beside.state_dict()["scale.0.filtered"]) == N + 1


def test_saved_and_loaded_they_go_on_the_same():
    one, other = make(), make()
    for seed in range(2):
        one.scale(one.compute(noise(seed=seed)), noise(seed=seed))
        one.update(noise(seed=seed))
    other.load_state_dict(copied(one.state_dict()))
    recorded = noise(seed=5)
    raw = one.compute(recorded)
    assert torch.equal(raw[1].max(), torch.tensor(2.0))
    for a, b in zip(one.scale(raw, recorded), other.scale(other.compute(recorded), recorded), strict=True):
        assert torch.equal(a, b)
    assert_equal(one.state_dict(), other.state_dict())


@pytest.mark.parametrize("n_terms", [0, 1])
def test_a_method_may_have_fewer_streams_or_none(n_terms):
    rewards = ScaledRewards(make().terms[:n_terms], N, CPU)
    raw = rewards.compute(noise())
    assert [x.shape for x in rewards.scale(raw, noise())] == [(T, N)] * n_terms
    assert rewards.update(noise()) == {}
    rewards.load_state_dict(rewards.state_dict())
