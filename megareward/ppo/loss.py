"""The terms of PPO's loss, one function each. `weight` is 1 for samples that count and 0 for the others."""

import torch

from megareward.statistics.weighted import weighted_mean
from megareward.types import Float, Int, Tensor


def normalise(advantages: Float[Tensor, "B"], weight: Float[Tensor, "B"], eps: float = 1e-8) -> Float[Tensor, "B"]:
    """To mean 0 and standard deviation 1 over the samples that count."""
    mean = weighted_mean(advantages, weight)
    variance = weighted_mean((advantages - mean) ** 2, weight)
    return (advantages - mean) / (variance.sqrt() + eps)


def log_prob_of(logits: Float[Tensor, "B A"], actions: Int[Tensor, "B"]) -> Float[Tensor, "B"]:
    return torch.log_softmax(logits, dim=-1).gather(-1, actions[:, None]).squeeze(-1)


def entropy_of(logits: Float[Tensor, "B A"]) -> Float[Tensor, "B"]:
    log_p = torch.log_softmax(logits, dim=-1)
    return -(log_p.exp() * log_p).sum(-1)


def policy_loss(
    log_prob: Float[Tensor, "B"], old_log_prob: Float[Tensor, "B"], advantages: Float[Tensor, "B"], clip: Tensor
) -> Float[Tensor, "B"]:
    """Clipped surrogate objective (Schulman et al. 2017, Eq. 7), negated, per sample."""
    ratio = (log_prob - old_log_prob).exp()
    clipped = ratio.clamp(1 - clip, 1 + clip)
    return -torch.minimum(ratio * advantages, clipped * advantages)


def value_loss(
    values: Float[Tensor, "B S"],
    old_values: Float[Tensor, "B S"],
    returns: Float[Tensor, "B S"],
    clip: Tensor | None,
) -> Float[Tensor, "B S"]:
    """Half the squared error per sample and stream; with a clip, the worse of the plain and the clipped one."""
    plain = (values - returns) ** 2
    if clip is None:
        return 0.5 * plain
    clipped = old_values + (values - old_values).clamp(-clip, clip)
    return 0.5 * torch.maximum(plain, (clipped - returns) ** 2)
