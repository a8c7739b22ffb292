"""Collecting a rollout, fast: the same numbers as `collect.Collector`, in another order of work.

- Environments may come in groups that take turns: while the policy acts for one group, the others emulate.
- On a GPU everything between a group's frames and its next actions runs in two CUDA graphs: `look` (frames arrive,
  observers record fields) and `act` (the policy decides). They read time step and group from tensors on the device.
- Between two time steps observers may learn, as in the plain form; here this overlaps with emulation.
"""

from collections.abc import Sequence

import torch

from megareward.cuda.graphs import CapturedFunction
from megareward.envs.interface import BatchedEnv, Step
from megareward.observers.interface import Observer
from megareward.ppo.agent import Agent
from megareward.rollout import Rollout
from megareward.training.clock import Clock
from megareward.training.collect import Collector
from megareward.types import Int, Tensor


class FastCollector(Collector):
    def __init__(
        self,
        env: BatchedEnv,
        rollout: Rollout,
        observers: Sequence[Observer],
        agent: Agent,
        generator: torch.Generator,
        *,
        graphs: bool,
    ) -> None:
        super().__init__(env, rollout, observers, agent, generator)
        n = env.n_envs // env.n_groups
        self.groups = [slice(start, start + n) for start in range(0, env.n_envs, n)]
        self._members = torch.arange(n, device=rollout.device)
        self._now = torch.zeros((), dtype=torch.int64, device=rollout.device)
        self._start = torch.zeros((), dtype=torch.int64, device=rollout.device)
        """Index of the first environment of the current group."""
        self.captured = [observer for observer in observers if observer.capturable]
        self.others = [observer for observer in observers if not observer.capturable]
        self.act = CapturedFunction(self._act, enabled=graphs)
        self.look = CapturedFunction(
            self._look, enabled=graphs, restores=lambda: [tensor for o in self.captured for tensor in o.changed()]
        )

    def begin(self, step: Step) -> None:
        self.rollout.show(0, step)
        for group, rows in enumerate(self.groups):
            self.observe(0, group, rows)

    def step(self, t: int, clock: Clock, greedy: bool = False) -> Step:
        raise RuntimeError("a fast collector has no single steps, as groups take turns; use collect()")

    @torch.no_grad()
    def collect(self, clock: Clock, *, random: bool) -> None:
        rollout, env, T = self.rollout, self.env, self.rollout.T
        self.policy_on.fill_(float(not random))
        for t in range(T + 1):
            self._now.fill_(t)
            if t < T:
                self.exponentials.exponential_(generator=self.generator)
            for group, rows in enumerate(self.groups):
                self._start.fill_(rows.start)
                if t > 0:
                    step = env.recv()
                    clock.lap("emulate")
                    self.score_book.record(step)
                    rollout.receive(t, step, rows)
                    for observer in self.captured:
                        observer.prepare(group)
                    self.look()
                    for observer in self.others:
                        observer.prepare(group)
                        index = rollout.index(t, rows)
                        rollout.record(index, observer.advance(self.seen(index)))
                    clock.lap("track")
                if t < T:
                    actions = self.act().to(env.device)
                    clock.lap("act")
                    env.send(actions)
                    clock.lap("emulate")  # mini games play here, an emulator between here and `recv`
            if t < T:
                for observer in self.observers:
                    observer.work(T - t)
                clock.lap("control")
                self.n_steps = t + 1
        self.value_last_frame()

    def _index(self) -> Int[Tensor, "n"]:
        """The samples of the current group at the current time step."""
        return self._now * self.rollout.n_envs + self._start + self._members

    def _look(self) -> None:
        """Store the group's new frames as those of time `now`, and let observers record their fields of them."""
        index = self._index()
        self.rollout.place(index)
        for observer in self.captured:
            self.rollout.record(index, observer.advance(self.seen(index)))

    def _act(self) -> Int[Tensor, "n"]:
        """Let the group act on frame `now`, and store the decision in the rollout."""
        index = self._index()
        exponentials = self.exponentials[self._start + self._members]
        decision = self.agent.decide(index, exponentials, self.policy_on)
        self.rollout.decide(index, decision)
        return decision.actions
