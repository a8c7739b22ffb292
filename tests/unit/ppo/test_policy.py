"""The network's shapes, its trunk rule, and the way it draws actions."""

import pytest
import torch

from megareward.errors import UsageError
from megareward.ppo.config import PolicyConfig, PPOConfig, Stream
from megareward.ppo.policy import Policy, sample

B, A, S = 5, 7, 2


@pytest.mark.parametrize("shape", [(84, 84), (32, 32), (40, 48)])
def test_logits_and_values_have_one_row_per_sample(shape):
    policy = Policy(shape, A, S, PolicyConfig())
    logits, values = policy(torch.randint(0, 256, (B, 4, *shape), dtype=torch.uint8))
    assert logits.shape == (B, A)
    assert values.shape == (B, S)


def test_extra_channels_reach_the_network():
    policy = Policy((32, 32), A, S, PolicyConfig(stack=3), extra_channels=1)
    stack = torch.zeros(B, 3, 32, 32, dtype=torch.uint8)
    plain = policy(stack, torch.zeros(B, 1, 32, 32))[1]
    lit = policy(stack, torch.ones(B, 1, 32, 32))[1]
    assert not torch.equal(plain, lit)


def test_a_fresh_policy_is_nearly_uniform():
    logits, _ = Policy((84, 84), A, S, PolicyConfig())(torch.randint(0, 256, (B, 4, 84, 84), dtype=torch.uint8))
    assert torch.softmax(logits, -1).sub(1 / A).abs().max() < 0.05


def test_frames_too_small_for_the_trunk_are_refused():
    with pytest.raises(UsageError, match="too small"):
        Policy((32, 32), A, S, PolicyConfig(trunk="nature"))


def test_actions_are_drawn_with_their_probabilities(generator):
    probabilities = torch.tensor([0.1, 0.2, 0.7])
    clocks = torch.empty(40_000, 3).exponential_(generator=generator)
    actions = sample(probabilities.log().expand(40_000, 3), clocks)
    frequencies = torch.bincount(actions, minlength=3) / 40_000
    torch.testing.assert_close(frequencies, probabilities, atol=0.01, rtol=0)


@pytest.mark.parametrize(
    "bad", [{"n_envs": 0}, {"minibatches": 7}, {"learning_rate": 0.0}, {"gae_lambda": 1.5}, {"clip": -0.1}]
)
def test_impossible_hyper_parameters_are_refused_by_name(bad):
    with pytest.raises(UsageError, match=next(iter(bad))):
        PPOConfig(**bad)


def test_an_impossible_discount_is_refused():
    with pytest.raises(UsageError, match=r"1\.5"):
        Stream("x", discount=1.5)
