"""One PPO update: several epochs of minibatches over a rollout."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from megareward.ppo import loss
from megareward.ppo.config import PPOConfig
from megareward.ppo.policy import Policy
from megareward.types import Float, Int, Tensor

Observe = Callable[[Int[Tensor, "B"]], tuple[Tensor, Tensor | None]]
"""Sample indices -> (frame stacks, extra channels or None). Stacks are formed only here, from unstacked storage."""


@dataclass(frozen=True)
class Samples:
    """A rollout, flattened: B = T * N samples, S reward streams."""

    actions: Int[Tensor, "B"]
    log_probs: Float[Tensor, "B"]
    values: Float[Tensor, "B S"]
    advantages: Float[Tensor, "B"]
    """Already the weighted sum over the streams."""
    returns: Float[Tensor, "B S"]
    weight: Float[Tensor, "B"]
    """1 for real transitions, 0 for those that cross a reset."""


def losses(
    policy: Policy, observe: Observe, samples: Samples, index: Int[Tensor, "M"], clip: float, config: PPOConfig
) -> dict[str, Tensor]:
    """Every term of PPO's loss on the samples at `index`, and the total to minimise."""
    stack, extra = observe(index)
    with torch.autocast(stack.device.type, torch.bfloat16, enabled=uses_bfloat16(stack.device, config)):
        logits, values = policy(stack, extra)
    weight, advantages = samples.weight[index], samples.advantages[index]
    if config.normalise_advantages == "minibatch":
        advantages = loss.normalise(advantages, weight)
    log_prob = loss.log_prob_of(logits, samples.actions[index])
    old_log_prob = samples.log_probs[index]
    of_policy = loss.weighted_mean(loss.policy_loss(log_prob, old_log_prob, advantages, clip), weight)
    of_value = loss.weighted_mean(
        loss.value_loss(values, samples.values[index], samples.returns[index], clip if config.clip_value else None),
        weight,
    ).sum()
    entropy = loss.weighted_mean(loss.entropy_of(logits), weight)
    with torch.no_grad():
        change = log_prob - old_log_prob
        kl = loss.weighted_mean(change.exp() - 1 - change, weight)  # unbiased, never negative
        clipped = loss.weighted_mean(((change.exp() - 1).abs() > clip).float(), weight)
    return {
        "total": of_policy + config.value_weight * of_value - config.entropy_weight * entropy,
        "policy": of_policy,
        "value": of_value,
        "entropy": entropy,
        "kl": kl,
        "clipped": clipped,
    }


def uses_bfloat16(device: torch.device, config: PPOConfig) -> bool:
    return device.type == "cuda" and config.precision == "bfloat16"


def ppo_update(
    policy: Policy,
    optimiser: torch.optim.Optimizer,
    observe: Observe,
    samples: Samples,
    clip: float,
    config: PPOConfig,
    generator: torch.Generator,
) -> dict[str, Tensor]:
    """Train in place; return the mean of every loss term over all minibatches, still on the device."""
    B = samples.actions.shape[0]
    device = samples.actions.device
    if config.normalise_advantages == "rollout":
        normalised = loss.normalise(samples.advantages, samples.weight)
        samples = Samples(**{**vars(samples), "advantages": normalised})
    sums: dict[str, Tensor] = {}
    for _ in range(config.epochs):
        order = torch.randperm(B, generator=generator, device=device)
        for index in order.tensor_split(config.minibatches):
            terms = losses(policy, observe, samples, index, clip, config)
            optimiser.zero_grad(set_to_none=True)
            terms["total"].backward()
            terms["grad_norm"] = torch.nn.utils.clip_grad_norm_(policy.parameters(), config.max_grad_norm)
            optimiser.step()
            for name, term in terms.items():
                sums[name] = sums.get(name, 0.0) + term.detach()
    return {name: total / (config.epochs * config.minibatches) for name, total in sums.items()}
