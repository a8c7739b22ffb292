"""How ADM and RTM learn: losses, gradient steps, and the replay they draw from."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F

from megareward.control.adm import entropy
from megareward.control.learning.pending_update import Metrics, PendingUpdate
from megareward.control.learning.replay import ReplayBuffer, Transitions
from megareward.control.local_rtm import LocalRTM
from megareward.control.models import ControlModels, chosen
from megareward.control.observation import cell_rows, cells_to_draw
from megareward.control.rtm import RTM
from megareward.cuda.graphs import CapturedFunction, training_state
from megareward.rng import set_rng_state
from megareward.state import State, joined, load_optimiser_state, optimiser_state, part
from megareward.types import Bool, Float, Int, Tensor, UInt8


class Randomness(NamedTuple):
    """The random numbers of one gradient step, drawn beforehand so that the step itself can be captured."""

    anchor: Float[Tensor, "B px_h px_w"] | None
    """The noise anchor."""
    priorities: Float[Tensor, "B HW"] | None
    """Decide which cells are drawn; None if all are."""


class ControlLearner:
    """Trains control models in place."""

    def __init__(self, models: ControlModels, seed: int = 0) -> None:
        self.models, self.config, self.device = models, models.config, models.device
        config, on_gpu = self.config, self.device.type == "cuda"
        self.optimiser = torch.optim.Adam(
            models.modules.parameters(), config.learning_rate, config.betas, fused=True, capturable=on_gpu
        )
        self.replay = ReplayBuffer(config.replay, config.rtm.stack, models.n_actions)
        self.draws = torch.Generator().manual_seed(seed)
        self.noise = torch.Generator(self.device).manual_seed(seed + 1)
        # A gradient step reads its batch from a fixed place, so that it can be a CUDA graph.
        self._batch: Transitions | None = None
        self._randomness: Randomness | None = None
        self._gradient_step = CapturedFunction(
            self._one_gradient_step,
            enabled=True,
            restores=lambda: [*training_state(self.optimiser), *models.modules.buffers()],
        )

    def update(
        self,
        frames: UInt8[Tensor, "L N px_h px_w"],
        actions: Int[Tensor, "T N"],
        first: Bool[Tensor, "L N"],
        log_policy: Float[Tensor, "T N A"] | None = None,
    ) -> dict[str, float]:
        """Learn from a rollout and the few before it. Transitions across a reset are left out.

        actions[t] was chosen on frames[-1 - T + t]; frames before that are history for the stacks. `first` says which
        frames open an episode; `log_policy` has the log-probability of every action (None: uniform). Returns means over
        the gradient steps.
        """
        metrics = self.begin_update(frames, actions, first, log_policy=log_policy).finish()
        self.models.modules.eval()
        values = torch.stack(list(metrics.values())).tolist()  # the one wait for the device
        return dict(zip(metrics, values, strict=True))

    def begin_update(
        self,
        frames: UInt8[Tensor, "L N px_h px_w"],
        actions: Int[Tensor, "T N"],
        first: Bool[Tensor, "L N"],
        first_on_cpu: Bool[Tensor, "T N"] | None = None,
        log_policy: Float[Tensor, "T N A"] | None = None,
    ) -> PendingUpdate:
        """Like `update`, but the gradient steps are left to the caller. `first_on_cpu`: the newest T rows of `first`,
        if they are known there."""
        self.replay.add(frames, actions, first, log_policy, first_on_cpu)
        shown = frames[-len(actions) - 1 :].flatten(0, 1)
        self.models.normaliser.observe(shown)
        self.models.background.observe(shown)
        batches: list[Tensor] = []
        for _ in range(self.config.passes):
            batches += self.replay.batches(self.config.fraction, self.config.batch, self.draws)
        return PendingUpdate(batches, lambda numbers: self.train_step(self.replay.gather(numbers)), self.device)

    def train_step(self, batch: Transitions) -> Metrics:
        """One gradient step of both models, which share no parameter. Returns metrics."""
        self.models.modules.train()
        self.models.invalidate()
        randomness = self.draw_randomness(len(batch.actions), self.noise)
        if not (self.captures_steps and len(batch.actions) == self.config.batch):
            names, values = self._learn_from(batch, randomness)
            return dict(zip(names, values.unbind(), strict=True))
        if self._batch is None or self._randomness is None:
            self._batch, self._randomness = batch, randomness  # from now on this is the fixed place
        for place, tensor in zip((*self._batch, *self._randomness), (*batch, *randomness), strict=True):
            if place is not None and tensor is not None and place is not tensor:
                place.copy_(tensor)
        names, values = self._gradient_step()
        return dict(zip(names, values.clone().unbind(), strict=True))

    @property
    def captures_steps(self) -> bool:
        """Whether gradient steps are CUDA graphs. They cannot be where the number of pairs depends on the data."""
        data_decides = isinstance(self.models.rtm, RTM) and self.models.rtm.skips_pairs
        return chosen(self.config.execution.graph, self.device) and not data_decides

    def _one_gradient_step(self) -> tuple[tuple[str, ...], Float[Tensor, "metrics"]]:
        assert self._batch is not None
        assert self._randomness is not None
        return self._learn_from(self._batch, self._randomness)

    def _learn_from(
        self, batch: Transitions, randomness: Randomness
    ) -> tuple[tuple[str, ...], Float[Tensor, "metrics"]]:
        adm_loss, adm_metrics = self.adm_loss(batch)
        rtm_loss, rtm_metrics = self.rtm_loss(batch, randomness)
        self.optimiser.zero_grad()
        (adm_loss + rtm_loss).backward()
        self.optimiser.step()
        metrics = adm_metrics | rtm_metrics
        return tuple(metrics), torch.stack([value.detach().float() for value in metrics.values()])

    def adm_loss(self, batch: Transitions) -> tuple[Float[Tensor, ""], Metrics]:
        models = self.models
        before = cell_rows(models.normaliser(batch.stack[:, -1:]), models.grid)  # (B, HW, pixels)
        now = cell_rows(models.normaliser(batch.now[:, None]), models.grid)
        with models.autocast():
            output = models.adm(before, now)
            prior = batch.log_policy if self.config.adm.policy_prior else torch.zeros_like(output.logits)
            losses = models.adm.losses(output, batch.actions.long(), prior)
        with torch.no_grad():
            metrics = {f"adm/{name}_loss": value.detach() for name, value in losses.items()}
            metrics["adm/accuracy"] = ((output.logits + prior).argmax(-1) == batch.actions).float().mean()
            metrics["adm/entropy"] = entropy(output.direct).mean()
            # The loss of predicting that nothing changes: the baseline of RTM.
            metrics["rtm/copy_loss"] = F.mse_loss(before, now)
        return torch.stack(list(losses.values())).sum(), metrics

    def rtm_loss(self, batch: Transitions, randomness: Randomness) -> tuple[Float[Tensor, ""], Metrics]:
        models, anchor, priorities = self.models, randomness.anchor, randomness.priorities
        if isinstance(models.rtm, LocalRTM):
            return self.local_rtm_loss(models.rtm, batch, priorities)
        source, target = models.see(batch.stack, anchor), models.see_exactly(batch.now[:, None], anchor)
        targets = None
        if priorities is not None:
            targets = cells_to_draw(batch.stack[:, -1], batch.now, priorities, self.n_drawn, models.grid)
        with models.autocast():
            output = models.rtm(source, batch.actions, target, targets)
            losses = models.rtm.losses(output, target, models.normaliser.scale)
        with torch.no_grad():
            metrics = {f"rtm/{name}_loss": value.detach() for name, value in losses.items()}
            metrics |= {
                "rtm/self_attention": output.relation.diagonal(dim1=1, dim2=2).mean(),
                "rtm/attended": (output.relation > 0).float().mean(),
            }
        return torch.stack(list(losses.values())).sum(), metrics

    def local_rtm_loss(
        self, rtm: LocalRTM, batch: Transitions, priorities: Float[Tensor, "B HW"] | None
    ) -> tuple[Float[Tensor, ""], Metrics]:
        stack, now = self.models.normaliser(batch.stack), self.models.normaliser(batch.now)
        if priorities is None:
            priorities = torch.zeros(len(stack), self.models.grid.n_cells, device=self.device)
        sources = rtm.sources(batch.now != batch.stack[:, -1], priorities, self.n_drawn)
        with self.models.autocast():
            loss = rtm.loss(stack, batch.actions.long(), now, sources)
        return loss, {"rtm/transition_loss": loss.detach()}

    @property
    def n_drawn(self) -> int:
        """Cells that Phi draws, or draws from, in each transition."""
        rtm = self.config.rtm
        return math.ceil((rtm.local_sources if rtm.model == "local" else rtm.targets) * self.models.grid.n_cells)

    def draw_randomness(self, n: int, generator: torch.Generator) -> Randomness:
        """The random numbers of a gradient step on n transitions."""
        anchor = self.models.anchor(n, generator)
        HW = self.models.grid.n_cells
        everything = self.n_drawn == HW
        return Randomness(anchor, None if everything else torch.rand(n, HW, generator=generator, device=self.device))

    def state_dict(self) -> State:
        """Everything needed to continue exactly from here, the models included."""
        state = joined(optimiser=optimiser_state(self.optimiser), replay=self.replay.state_dict())
        return self.models.state_dict() | state | {"draws": self.draws.get_state(), "noise": self.noise.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.models.load_state_dict(state)
        load_optimiser_state(self.optimiser, part(state, "optimiser"))
        self._gradient_step.forget()  # it was captured with the old moments
        self.replay.load_state_dict(part(state, "replay"), self.device)
        set_rng_state(self.draws, state["draws"])
        set_rng_state(self.noise, state["noise"])
