"""A policy over codes: it decides every few steps, and PPO trains it with one time step per decision."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import torch

from megareward.ppo import loss
from megareward.ppo.config import PolicyConfig, PPOConfig
from megareward.ppo.policy import InputSizes, Observation, Policy, sample
from megareward.ppo.update import Samples, losses
from megareward.rewards.networks import Learner, means_of, minibatches
from megareward.rng import set_rng_state
from megareward.rollout import Rollout
from megareward.state import State, joined, optimiser_state, part
from megareward.types import Bool, Float, Int, Tensor, UInt8
from megareward.world import World


def own_time_gae(
    rewards: Float[Tensor, "T N"],
    values: Float[Tensor, "T_plus_1 N"],
    decided: Bool[Tensor, "T_plus_1 N"],
    cut: Bool[Tensor, "T_plus_1 N"],
    discount: float,
    gae_lambda: float,
) -> Float[Tensor, "T N"]:
    """Advantages of the decisions, 0 elsewhere. One time step goes from one decision to the next.

    Rewards in between are added up without discount. The return ends at the frames of `cut`. A time step that is
    unfinished when the rollout ends is bootstrapped from the value of the last frame, without discount.
    """
    T = len(rewards)
    advantages = torch.zeros_like(rewards)
    gathered = torch.zeros_like(rewards[0])  # (N,) from the current decision on
    future_value, future_advantage = values[T], torch.zeros_like(rewards[0])
    factor = torch.ones_like(rewards[0])
    for t in reversed(range(T)):
        here, kept = decided[t + 1], ~cut[t + 1]
        following = advantages[t + 1] if t + 1 < T else torch.zeros_like(gathered)
        future_value = torch.where(here, values[t + 1], future_value) * kept
        future_advantage = torch.where(here, following, future_advantage) * kept
        factor = torch.where(here, discount, factor)
        gathered = torch.where(here, 0.0, gathered) + rewards[t]
        advantage = gathered + factor * (future_value + gae_lambda * future_advantage) - values[t]
        advantages[t] = advantage * decided[t]
    return advantages


class Decisions(NamedTuple):
    """What a manager has decided in a rollout."""

    code: Int[Tensor, "T_plus_1 N"]
    """With which the level below acts on each frame."""
    decided: Bool[Tensor, "T_plus_1 N"]
    """Whether it was picked at this frame; elsewhere `log_prob` is that of a code that was not used."""
    log_prob: Float[Tensor, "T_plus_1 N"]
    value: Float[Tensor, "T_plus_1 N"]
    cut: Bool[Tensor, "T_plus_1 N"]
    """Frames at which the manager's return ends."""
    skill: Int[Tensor, "T_plus_1 N"] | None = None
    """The code of its own level."""


AT_ONCE = 64
"""Batches of managers have as many rows or a multiple of it, so that few sizes are captured."""


class Manager:
    """Picks one of K codes for the level below, given the newest frames and the code of its own level, if any."""

    DISCOUNT = 0.99
    """Per decision (DEHRL, SNN4HRL)."""

    def __init__(
        self, world: World, n_skills: int, learning_rate: float, seed: int, own_skills: int = 0, stack: int = 1
    ) -> None:
        self.stack = stack
        # DEHRL's: nothing decays, values count fully and are not clipped.
        constant = PPOConfig(learning_rate=learning_rate, learning_rate_decays=False, clip_decays=False)
        self.config = replace(constant, value_weight=1.0, clip_value=False)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            sizes = InputSizes(skills=own_skills)
            self.policy = Policy(world.frame_shape, n_skills, 1, PolicyConfig(stack=stack), sizes).to(world.device)
        self.clip = torch.tensor(self.config.clip, device=world.device)
        limits = {"eps": self.config.adam_eps, "max_grad_norm": self.config.max_grad_norm}
        self.learner = Learner(self.policy, learning_rate, world, self.losses, **limits)
        self.generator = torch.Generator(world.device).manual_seed(seed)

    def decide(
        self,
        stacks: UInt8[Tensor, "n C px_h px_w"],
        skills: Int[Tensor, "n"] | None,
        exponentials: Float[Tensor, "n K"],
    ) -> tuple[Int[Tensor, "n"], Float[Tensor, "n"], Float[Tensor, "n"]]:
        """Codes, the logarithms of their probabilities, and values. `exponentials` are the random numbers."""
        logits, values = self.policy(stacks[:, -self.stack :], skill=skills)
        codes = sample(logits, exponentials)
        return codes, loss.log_prob_of(logits, codes), values[:, 0]

    def learn(
        self,
        rollout: Rollout,
        rewards: Float[Tensor, "T N"],
        decisions: Decisions,
    ) -> dict[str, Tensor]:
        """PPO on the rollout's decisions."""
        code, decided, log_prob, value, cut, skill = decisions
        advantages = own_time_gae(rewards, value, decided, cut, self.DISCOUNT, self.config.gae_lambda)
        taken = (decided[:-1] & rollout.real).flatten().nonzero()[:, 0]  # (B,) samples t * N + n
        number, steps = self.config.minibatches, []
        rows = AT_ONCE * math.ceil(len(taken) / (number * AT_ONCE))
        columns = [code[:-1], log_prob[:-1], value[:-1], advantages, advantages + value[:-1]]
        columns += [] if skill is None else [skill]
        flat = [column.flatten() for column in columns]
        for pick in minibatches(len(taken), 1.0, number, self.config.epochs, self.generator):
            where = taken[pick]
            stacks = rollout.stacks(where)[:, -self.stack :]
            steps.append(self.learner.step((stacks, *(column[where] for column in flat)), rows))
        return means_of(steps)

    def losses(
        self,
        weight: Float[Tensor, "B"],
        stacks: UInt8[Tensor, "B C px_h px_w"],
        codes: Int[Tensor, "B"],
        log_probs: Float[Tensor, "B"],
        values: Float[Tensor, "B"],
        advantages: Float[Tensor, "B"],
        returns: Float[Tensor, "B"],
        skills: Int[Tensor, "B"] | None = None,
    ) -> dict[str, Float[Tensor, ""]]:
        samples = Samples(codes, log_probs, values[:, None], advantages, returns[:, None], weight)
        every = torch.arange(len(codes), device=codes.device)

        def observe(_: Int[Tensor, "M"]) -> Observation:
            return Observation(stacks, skill=skills)

        terms = losses(self.policy, observe, samples, every, self.clip, self.config)
        return {name: terms[name] for name in ("total", "entropy")}

    def state_dict(self) -> State:
        parts = joined(policy=self.policy.state_dict(), optimiser=optimiser_state(self.learner.adam))
        return parts | {"generator": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.policy.load_state_dict(part(state, "policy"))
        self.learner.load_adam(part(state, "optimiser"))
        set_rng_state(self.generator, state["generator"])
