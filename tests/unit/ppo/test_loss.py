"""Each term of PPO's loss against numbers worked out by hand."""

import math

import torch

from megareward.ppo import loss


def test_the_clipped_objective_takes_the_smaller_gain():
    ratio = torch.tensor([0.5, 1.0, 1.5, 0.5, 1.5])
    advantages = torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0])
    out = loss.policy_loss(ratio.log(), torch.zeros(5), advantages, clip=torch.tensor(0.2))
    torch.testing.assert_close(out, torch.tensor([-0.5, -1.0, -1.2, 0.8, 1.5]))


def test_no_gradient_flows_where_the_ratio_is_clipped_in_the_advantages_favour():
    log_prob = torch.tensor([math.log(1.5), math.log(0.5), 0.0], requires_grad=True)
    advantages = torch.tensor([1.0, -1.0, 1.0])
    loss.policy_loss(log_prob, torch.zeros(3), advantages, clip=torch.tensor(0.2)).sum().backward()
    torch.testing.assert_close(log_prob.grad, torch.tensor([0.0, 0.0, -1.0]))


def test_the_value_loss_is_the_worse_of_plain_and_clipped():
    values, old, returns = torch.tensor([[2.0], [0.1]]), torch.zeros(2, 1), torch.tensor([[2.0], [1.0]])
    clipped = loss.value_loss(values, old, returns, clip=torch.tensor(0.5))
    torch.testing.assert_close(clipped, torch.tensor([[0.5 * 1.5**2], [0.5 * 0.9**2]]))
    torch.testing.assert_close(loss.value_loss(values, old, returns, clip=None), torch.tensor([[0.0], [0.405]]))


def test_samples_of_weight_0_do_not_count():
    x, weight = torch.tensor([1.0, 3.0, 100.0]), torch.tensor([1.0, 1.0, 0.0])
    assert loss.weighted_mean(x, weight) == 2.0
    torch.testing.assert_close(loss.normalise(x, weight)[:2], torch.tensor([-1.0, 1.0]))


def test_entropy_and_log_probabilities_of_a_known_distribution():
    logits = torch.tensor([[0.25, 0.5, 0.25]]).log()
    torch.testing.assert_close(loss.entropy_of(logits), torch.tensor([1.5 * math.log(2)]))
    torch.testing.assert_close(loss.log_prob_of(logits, torch.tensor([1])), torch.tensor([math.log(0.5)]))
