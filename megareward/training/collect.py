"""Collecting a rollout, plainly: the agent acts on frame t, the environments return frame t+1, observers record it.

`fast_collect` does the same with CUDA graphs and groups of environments that take turns; a test checks that both give
the same numbers.
"""

from collections.abc import Sequence

import torch

from megareward.envs.interface import BatchedEnv, Step
from megareward.observers.interface import Observer, Seen
from megareward.ppo.agent import Agent
from megareward.rollout import Rollout
from megareward.training.clock import Clock
from megareward.training.score_book import ScoreBook


class Collector:
    """Fills a rollout step by step. The score book logs game rewards; a rollout stores them only if asked to."""

    def __init__(
        self,
        env: BatchedEnv,
        rollout: Rollout,
        observers: Sequence[Observer],
        agent: Agent,
        generator: torch.Generator,
    ) -> None:
        """`generator` draws the actions."""
        self.env, self.rollout, self.observers, self.agent, self.generator = env, rollout, observers, agent, generator
        self.score_book = ScoreBook(env.n_envs)
        self.exponentials = torch.zeros(env.n_envs, env.n_actions, device=rollout.device)
        self.policy_on = torch.ones((), device=rollout.device)
        self.n_steps = 0
        """Steps of the present rollout collected so far."""

    def begin(self, step: Step) -> None:
        """Store the first frames of new games."""
        self.rollout.show(0, step)
        self.observe(0)

    @torch.no_grad()
    def collect(self, clock: Clock, *, random: bool) -> None:
        """T steps. `random`: the policy has no say yet."""
        T = self.rollout.T
        self.policy_on.fill_(float(not random))
        for t in range(T):
            self.step(t, clock)
            for observer in self.observers:
                observer.work(T - t)
            clock.lap("control")
            self.n_steps = t + 1
        self.value_last_frame()

    def step(self, t: int, clock: Clock, greedy: bool = False) -> Step:
        """From frame t to frame t+1. `greedy`: by the likeliest action."""
        rollout, index = self.rollout, self.rollout.index(t)
        self.exponentials.exponential_(generator=self.generator)
        decision = self.agent.decide(index, self.exponentials, self.policy_on)
        if greedy:
            decision = decision._replace(actions=decision.log_policy.argmax(-1))
        rollout.decide(index, decision)
        clock.lap("act")
        self.env.send(decision.actions.to(self.env.device))
        step = self.env.recv()
        clock.lap("emulate")
        self.score_book.record(step)
        rollout.show(t + 1, step)
        self.observe(t + 1)
        clock.lap("track")
        return step

    def observe(self, t: int, group: int = 0, rows: slice = slice(None)) -> None:
        """Every observer records its fields of frame t."""
        rollout, index = self.rollout, self.rollout.index(t, rows)
        for observer in self.observers:
            observer.prepare(group)
            rollout.record(index, observer.advance(self.seen(index)))

    def seen(self, index: torch.Tensor) -> Seen:
        """The input of the observers for the samples `index`, all of one time step."""
        rollout, N = self.rollout, self.rollout.n_envs
        before = torch.where(index < N, index, index - N)  # no action led to the first frame of all: any will do
        return Seen(rollout.stacks(index), rollout.actions.view(-1)[before], rollout.first.flatten()[index], index % N)

    def value_last_frame(self) -> None:
        """Store the value of the frame after the rollout, from which returns are bootstrapped."""
        index = self.rollout.index(self.rollout.T)
        self.rollout.value(index, self.agent.values(index))
