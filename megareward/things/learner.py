"""How the models of things learn: gradient steps on the transitions of the last rollouts."""

from collections.abc import Mapping

import torch

from megareward.control.learning.replay import ReplayBuffer
from megareward.rng import set_rng_state
from megareward.state import State, joined, load_optimiser_state, optimiser_state, part
from megareward.things.models import ThingModels
from megareward.types import Bool, Float, Int, Tensor, UInt8

AT_A_TIME = 128
"""Frames that are searched together; more do not fit into a CPU's cache."""


class ThingLearner:
    """Trains the models in place."""

    def __init__(self, models: ThingModels, seed: int = 0) -> None:
        self.models, self.config, self.device = models, models.config, models.device
        config = self.config
        self.optimiser = torch.optim.Adam(models.modules.parameters(), config.learning_rate, config.betas, fused=True)
        self.replay = ReplayBuffer(config.replay, config.rtm.stack, models.n_actions)
        self.draws = torch.Generator().manual_seed(seed)
        self.noise = torch.Generator(self.device).manual_seed(seed + 1)

    def update(
        self,
        frames: UInt8[Tensor, "L N px_h px_w"],
        actions: Int[Tensor, "T N"],
        first: Bool[Tensor, "L N"],
        log_policy: Float[Tensor, "T N A"] | None = None,
        first_on_cpu: Bool[Tensor, "T N"] | None = None,
    ) -> dict[str, Float[Tensor, ""]]:
        """Learn from a rollout and the few before it, as `ControlLearner.update` does. Means over the steps."""
        self.replay.add(frames, actions, first, log_policy, first_on_cpu)
        self.models.background.observe(frames[-len(actions) - 1 :].flatten(0, 1))
        steps: list[dict[str, Tensor]] = []
        table = self.replay.table()
        parts = table.frames[:, None].split(AT_A_TIME)
        found = torch.cat([self.models.find(frames)[:, 0] for frames in parts])  # (F, S, 6): each is searched once
        for _ in range(self.config.passes):
            for numbers in self.replay.batches(self.config.fraction, self.config.batch, self.draws):
                batch = self.replay.gather(numbers)
                shape = (len(numbers), 4, self.models.S)
                random = torch.rand(shape, generator=self.noise, device=self.device)
                transitions = (batch.stack, batch.actions.long(), batch.now, batch.log_policy)
                losses = self.models.losses(*transitions, random, found[table.pictures[numbers]])
                self.optimiser.zero_grad()
                torch.stack(list(losses.values())).sum().backward()
                self.optimiser.step()
                steps.append({f"things/{name}_loss": loss.detach() for name, loss in losses.items()})
        return {name: torch.stack([step[name] for step in steps]).mean() for name in steps[0]} if steps else {}

    def state_dict(self) -> State:
        """Everything needed to continue exactly from here, the models included."""
        state = joined(optimiser=optimiser_state(self.optimiser), replay=self.replay.state_dict())
        return self.models.state_dict() | state | {"draws": self.draws.get_state(), "noise": self.noise.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.models.load_state_dict(state)
        load_optimiser_state(self.optimiser, part(state, "optimiser"))
        self.replay.load_state_dict(part(state, "replay"), self.device)
        set_rng_state(self.draws, state["draws"])
        set_rng_state(self.noise, state["noise"])
