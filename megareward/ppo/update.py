"""One PPO update: several epochs of minibatches over a rollout."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Protocol, runtime_checkable

import torch

from megareward.cuda.graphs import CapturedFunction, training_state
from megareward.nets import multiplies_bfloat16
from megareward.ppo import loss
from megareward.ppo.config import PPOConfig
from megareward.ppo.policy import Observation, Policy
from megareward.types import Float, Int, Tensor

Observe = Callable[[Int[Tensor, "M"]], Observation]
"""Sample indices -> what the policy sees. Stacks are formed only here, from unstacked storage."""


@runtime_checkable
class AuxiliaryLoss(Protocol):
    """A further loss that trains the policy's trunk, and networks of its own, in the same gradient steps."""

    module: torch.nn.Module
    """Its own networks, on the policy's device."""

    def begin(self, left: float) -> None:
        """Before the gradient steps of a rollout: `left` is the share of training still to come."""

    def __call__(self, policy: Policy, seen: Observation, index: Int[Tensor, "M"]) -> Float[Tensor, ""]:
        """The loss on the samples `index` of the rollout, of which the policy sees `seen`."""
        ...


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
    policy: Policy,
    observe: Observe,
    samples: Samples,
    index: Int[Tensor, "M"],
    clip: Tensor,
    config: PPOConfig,
    auxiliary: AuxiliaryLoss | None = None,
    policy_on: Float[Tensor, ""] | float = 1.0,
) -> dict[str, Tensor]:
    """Every term of PPO's loss on the samples at `index`, and the total to minimise. `policy_on` is 1, or 0 where only
    the auxiliary loss counts."""
    seen = observe(index)
    with mixed_precision(seen.stack.device, config):
        logits, values = policy(*seen)
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
    terms = {
        "total": of_policy + config.value_weight * of_value - config.entropy_weight * entropy,
        "policy": of_policy,
        "value": of_value,
        "entropy": entropy,
        "kl": kl,
        "clipped": clipped,
    }
    if auxiliary is not None:
        terms["auxiliary"] = auxiliary(policy, seen, index)
        terms["total"] = terms["total"] * policy_on + terms["auxiliary"]
    return terms


def mixed_precision(device: torch.device, config: PPOConfig) -> torch.autocast:
    """bfloat16 if asked for, where it is faster. Its cache of cast weights is off: a CUDA graph must cast them anew."""
    enabled = config.precision == "bfloat16" and multiplies_bfloat16(device)
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled, cache_enabled=False)


class PPO:
    """Trains a policy in place. All it reads lies in fixed tensors, so that a gradient step can be a CUDA graph."""

    TERMS = ("total", "policy", "value", "entropy", "kl", "clipped", "grad_norm")

    def __init__(
        self,
        policy: Policy,
        observe: Observe,
        config: PPOConfig,
        batch: int,
        auxiliary: AuxiliaryLoss | None = None,
    ) -> None:
        """`batch`: samples of a rollout."""
        self.policy, self.observe, self.config, self.batch = policy, observe, config, batch
        self.auxiliary = auxiliary
        self.parameters = [*policy.parameters(), *(auxiliary.module.parameters() if auxiliary else ())]
        self.terms = self.TERMS if auxiliary is None else (*self.TERMS, "auxiliary")
        self.device = policy.action_head.weight.device
        on_gpu = self.device.type == "cuda"
        rate = torch.tensor(config.learning_rate, device=self.device) if on_gpu else config.learning_rate
        self.optimiser = torch.optim.Adam(self.parameters, lr=rate, eps=config.adam_eps, fused=True, capturable=on_gpu)
        self.samples: Samples | None = None
        self.index = torch.zeros(batch // config.minibatches, dtype=torch.int64, device=self.device)
        self.clip = torch.tensor(config.clip, device=self.device)
        self.policy_on = torch.ones((), device=self.device)
        self.sums = torch.zeros(len(self.terms), device=self.device)
        self._gradient_step = CapturedFunction(
            self._one_gradient_step,
            enabled=on_gpu and config.cuda_graphs,
            restores=lambda: [*training_state(self.optimiser), self.sums],
        )

    def update(
        self, samples: Samples, left: float, generator: torch.Generator, *, only_auxiliary: bool = False
    ) -> dict[str, Tensor]:
        """Several passes over the samples; `left` is the share of training still to come, for what decays with it.
        `only_auxiliary`: the auxiliary loss alone is minimised.

        Returns the mean of every term of the loss, still on the device.
        """
        config = self.config
        self.clip.fill_(config.clip * (max(left, 1e-3) if config.clip_decays else 1.0))
        self._set_learning_rate(config.learning_rate * (left if config.learning_rate_decays else 1.0))
        if config.normalise_advantages == "rollout":
            normalised = loss.normalise(samples.advantages, samples.weight)
            samples = Samples(**{**vars(samples), "advantages": normalised})
        self._take(samples)
        self.policy_on.fill_(float(not only_auxiliary))
        if self.auxiliary is not None:
            self.auxiliary.begin(left)
        self.sums.zero_()
        for _ in range(config.epochs):
            order = torch.randperm(self.batch, generator=generator, device=self.device)
            for index in order.chunk(config.minibatches):
                self.index.copy_(index)
                self._gradient_step()
        means = self.sums / (config.epochs * config.minibatches)
        return dict(zip(self.terms, means, strict=True))

    def forget_graph(self) -> None:
        """Capture the gradient step anew: the optimiser's moments have been replaced."""
        self._gradient_step.forget()

    def _one_gradient_step(self) -> None:
        assert self.samples is not None
        how = (self.clip, self.config, self.auxiliary, self.policy_on)
        terms = losses(self.policy, self.observe, self.samples, self.index, *how)
        self.optimiser.zero_grad(set_to_none=True)
        terms["total"].backward()
        terms["grad_norm"] = torch.nn.utils.clip_grad_norm_(self.parameters, self.config.max_grad_norm)
        self.optimiser.step()
        self.sums += torch.stack([terms[name].detach() for name in self.terms])

    def _take(self, samples: Samples) -> None:
        """Copy into the fixed tensors, which are made at the first call."""
        if self.samples is None:
            self.samples = Samples(**{name: tensor.clone() for name, tensor in vars(samples).items()})
        for field in fields(samples):
            getattr(self.samples, field.name).copy_(getattr(samples, field.name))

    def _set_learning_rate(self, rate: float) -> None:
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
