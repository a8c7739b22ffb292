"""A policy over codes: it decides every few steps, and PPO teaches it in its own time."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import torch

from megareward.ppo import loss
from megareward.ppo.config import PolicyConfig, PPOConfig
from megareward.ppo.policy import InputSizes, Observation, Policy, sample
from megareward.ppo.update import Samples, losses
from megareward.rng import set_rng_state
from megareward.rollout import Rollout
from megareward.state import State, joined, load_optimiser_state, optimiser_state, part
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
    """Advantages of the decisions, 0 elsewhere. A step of their own time goes from one decision to the next.

    Rewards on the way are added up; only a decision discounts. The return ends at the frames of `cut`. A step that the
    rollout leaves unfinished is worth what its last frame is expected to bring.
    """
    T = len(rewards)
    advantages = torch.zeros_like(rewards)
    gathered = torch.zeros_like(rewards[0])  # (N,) since the decision that is looked at
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
    """By which the level below acts on each frame."""
    decided: Bool[Tensor, "T_plus_1 N"]
    """Whether it was picked at this frame; what the others say is not meant."""
    log_prob: Float[Tensor, "T_plus_1 N"]
    value: Float[Tensor, "T_plus_1 N"]
    cut: Bool[Tensor, "T_plus_1 N"]
    """Frames at which the manager's return ends."""
    skill: Int[Tensor, "T_plus_1 N"] | None = None
    """The code of its own level."""


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
        self.optimiser = torch.optim.Adam(self.policy.parameters(), learning_rate, eps=self.config.adam_eps, fused=True)
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
        samples = Samples(
            actions=code[:-1].flatten()[taken],
            log_probs=log_prob[:-1].flatten()[taken],
            values=value[:-1].flatten()[taken, None],
            advantages=advantages.flatten()[taken],
            returns=(advantages + value[:-1]).flatten()[taken, None],
            weight=torch.ones(len(taken), device=taken.device),
        )

        def observe(index: Int[Tensor, "M"]) -> Observation:
            where = taken[index]
            own = None if skill is None else skill.flatten()[where]
            return Observation(rollout.stacks(where)[:, -self.stack :], skill=own)

        terms: dict[str, Tensor] = {}
        for _ in range(self.config.epochs if len(taken) else 0):
            order = torch.randperm(len(taken), generator=self.generator, device=taken.device)
            for index in order.chunk(self.config.minibatches):
                terms = losses(self.policy, observe, samples, index, self.clip, self.config)
                self.optimiser.zero_grad(set_to_none=True)
                terms["total"].backward()
                torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.config.max_grad_norm)
                self.optimiser.step()
        return {"entropy": terms["entropy"].detach()} if terms else {}

    def state_dict(self) -> State:
        parts = joined(policy=self.policy.state_dict(), optimiser=optimiser_state(self.optimiser))
        return parts | {"generator": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.policy.load_state_dict(part(state, "policy"))
        load_optimiser_state(self.optimiser, part(state, "optimiser"))
        set_rng_state(self.generator, state["generator"])
