"""The update as a whole: what it changes, what it must not, and that its fast path computes the same."""

import pytest
import torch

from megareward.ppo.config import PolicyConfig, PPOConfig
from megareward.ppo.policy import Policy
from megareward.ppo.update import PPO, Samples

A, S, B = 5, 2, 24
CONFIG = PPOConfig(minibatches=4, epochs=2, learning_rate=1e-3)


def policy_and_samples(device: str = "cpu", dead: int | None = None) -> tuple[Policy, torch.Tensor, Samples]:
    torch.manual_seed(3)
    policy = Policy((32, 32), A, S, PolicyConfig()).to(device)
    frames = torch.randint(0, 256, (B, 4, 32, 32), dtype=torch.uint8, device=device)
    weight = torch.ones(B, device=device)
    if dead is not None:
        weight[dead] = 0.0
    samples = Samples(
        actions=torch.randint(A, (B,), device=device),
        log_probs=torch.full((B,), -1.6, device=device),
        values=torch.randn(B, S, device=device),
        advantages=torch.randn(B, device=device),
        returns=torch.randn(B, S, device=device),
        weight=weight,
    )
    return policy, frames, samples


def train(policy: Policy, frames: torch.Tensor, samples: Samples, config: PPOConfig, updates: int = 2) -> dict:
    ppo = PPO(policy, lambda index: (frames[index], None), config)
    generator = torch.Generator(frames.device).manual_seed(0)
    for i in range(updates):
        metrics = ppo.update(samples, 1.0 - 0.25 * i, generator)
    return metrics


def test_an_update_raises_the_probability_of_actions_with_positive_advantage():
    policy, frames, samples = policy_and_samples()
    logits, _ = policy(frames)
    before = torch.log_softmax(logits, -1).gather(1, samples.actions[:, None])[:, 0].detach()
    samples = Samples(**{**vars(samples), "log_probs": before})
    train(policy, frames, samples, CONFIG)
    after = torch.log_softmax(policy(frames)[0], -1).gather(1, samples.actions[:, None])[:, 0]
    gain = (after - before).detach()
    assert gain[samples.advantages > 0.5].mean() > gain[samples.advantages < -0.5].mean()


def test_a_transition_across_a_reset_does_not_touch_the_weights():
    """Everything about the dead sample is changed wildly; the trained weights must not notice."""
    one, frames, samples = policy_and_samples(dead=7)
    two, _, _ = policy_and_samples(dead=7)
    poisoned = Samples(**{name: tensor.clone() for name, tensor in vars(samples).items()})
    poisoned.actions[7] = (samples.actions[7] + 1) % A
    poisoned.advantages[7] = poisoned.returns[7] = poisoned.values[7] = 1e4
    train(one, frames, samples, CONFIG)
    train(two, frames, poisoned, CONFIG)
    for p, q in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(p, q)


def test_with_no_time_left_nothing_is_learnt():
    policy, frames, samples = policy_and_samples()
    before = [p.clone() for p in policy.parameters()]
    ppo = PPO(policy, lambda index: (frames[index], None), CONFIG)
    ppo.update(samples, 0.0, torch.Generator().manual_seed(0))
    assert all(torch.equal(p, q) for p, q in zip(policy.parameters(), before, strict=True))


@pytest.mark.parametrize("mode", ["minibatch", "rollout", "never"])
def test_every_way_to_normalise_advantages_gives_finite_losses(mode):
    policy, frames, samples = policy_and_samples()
    metrics = train(policy, frames, samples, PPOConfig(**{**vars(CONFIG), "normalise_advantages": mode}))
    assert all(torch.isfinite(value) for value in metrics.values())
    assert set(metrics) == set(PPO.TERMS)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_recorded_update_equals_the_plain_one_bit_for_bit(precision):
    results = []
    for graphs in (False, True):
        policy, frames, samples = policy_and_samples("cuda")
        config = PPOConfig(**{**vars(CONFIG), "cuda_graphs": graphs, "precision": precision})
        torch.backends.cudnn.deterministic = True
        metrics = train(policy, frames, samples, config, updates=3)
        results.append([*policy.parameters(), *metrics.values()])
    for plain, recorded in zip(*results, strict=True):
        assert torch.equal(plain, recorded)
