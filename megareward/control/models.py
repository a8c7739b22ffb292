"""ADM and RTM as one thing that learns from rollouts and answers what is controlled."""

import importlib.util
import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from megareward.control.adm import ADM, entropy
from megareward.control.background import Background
from megareward.control.config import ControlConfig, Switch
from megareward.control.fast.folded import FoldedAttention
from megareward.control.grid import Grid
from megareward.control.layers import choose_execution
from megareward.control.learning.pending_update import PendingUpdate
from megareward.control.learning.replay import ReplayBuffer, Transitions
from megareward.control.observation import Normaliser, anchor_noise, cell_rows, cells_to_draw
from megareward.control.rtm import RTM
from megareward.cuda import graphs
from megareward.errors import UsageError
from megareward.rng import set_rng_state
from megareward.types import Bool, Float, Int, Tensor, UInt8


class ControlMaps(NamedTuple):
    direct: Float[Tensor, "N HW"]
    """alpha(s_t, a_{t-1}), Eq. 3."""
    relation: Float[Tensor, "N HW HW"]
    """alpha(s_t, s_{t-1})[to, from], Eq. 8."""


class Chance(NamedTuple):
    """The random numbers of one gradient step, drawn beforehand so that the step itself can be recorded."""

    anchor: Float[Tensor, "B px_h px_w"] | None
    """The noise anchor [D6]."""
    lots: Float[Tensor, "B HW"] | None
    """Decide which cells are drawn [D16]; None if all are."""


class ControlModels:
    """The two models, what they see, and how they learn. Frames go in as bytes."""

    def __init__(
        self,
        config: ControlConfig,
        frame_shape: tuple[int, int],
        n_actions: int,
        device: torch.device | str = "cpu",
        seed: int = 0,
    ) -> None:
        self.config, self.frame_shape, self.device = config, frame_shape, torch.device(device)
        self.grid = Grid(config.H, config.W, *frame_shape)
        with torch.random.fork_rng(devices=[]):  # the weights are a function of the seed, and touch no other draw
            torch.manual_seed(seed)
            self.adm = ADM(self.grid, config.adm, n_actions)
            self.rtm = RTM(self.grid, config.rtm, n_actions)
        self.modules = nn.ModuleDict({"adm": self.adm, "rtm": self.rtm}).to(self.device).eval()
        how, on_cpu = config.execution, self.device.type == "cpu"
        self.bf16 = chosen(how.bf16, self.device)
        dense, fused = chosen(how.dense, self.device), chosen_fused(how.fused, self.device)
        choose_execution(self.modules, dense=None if how.dense == "auto" and on_cpu else dense, fused=fused)
        self._fused_cells = dense and fused
        """One kernel from bytes to the rows that products like; they are a little wider than cells."""
        self._dtype = torch.bfloat16 if self.bf16 else torch.float32
        self._folded: FoldedAttention | None = None
        """Made when it is first asked for: models that only learn need none."""
        self._stale = True
        """The weights have changed since they were folded."""
        self.normaliser = Normaliser(config.normalise, frame_shape, config.normalise_frames, self.device)
        self.background = Background(frame_shape, max(config.normalise_frames, config.warmup_steps), self.device)
        on_gpu = self.device.type == "cuda"
        self.optimiser = torch.optim.Adam(
            self.modules.parameters(), config.learning_rate, config.betas, fused=True, capturable=on_gpu
        )
        self.replay = ReplayBuffer(config.replay, config.rtm.stack, n_actions)
        self.draws = torch.Generator().manual_seed(seed)
        self.noise = torch.Generator(self.device).manual_seed(seed + 1)
        # A gradient step reads its batch from a fixed place, so that it can be a CUDA graph.
        self._batch: Transitions | None = None
        self._chance: Chance | None = None
        snapshot = graphs.TrainingSnapshot(self.optimiser, lambda: list(self.modules.buffers()))
        self._gradient_step = graphs.CapturedFunction(
            self._one_gradient_step, enabled=True, before=snapshot.save, after=snapshot.restore
        )

    def update(
        self,
        frames: UInt8[Tensor, "L N px_h px_w"],
        actions: Int[Tensor, "T N"],
        first: Bool[Tensor, "L N"],
        log_policy: Float[Tensor, "T N A"] | None = None,
    ) -> dict[str, float]:
        """Learn from a rollout and the few before it. Transitions across a reset are left out.

        frames[-1 - T + t] shows what actions[t] was chosen upon; frames before that are history for the stacks. `first`
        says which frames open an episode, `log_policy` how likely each action was (None: all alike). Returns means over
        the gradient steps.
        """
        metrics = self.study(frames, actions, first, log_policy=log_policy).finish()
        self.modules.eval()
        values = torch.stack(list(metrics.values())).tolist()  # the one wait for the device
        return dict(zip(metrics, values, strict=True))

    def study(
        self,
        frames: UInt8[Tensor, "L N px_h px_w"],
        actions: Int[Tensor, "T N"],
        first: Bool[Tensor, "L N"],
        first_here: Bool[Tensor, "T N"] | None = None,
        log_policy: Float[Tensor, "T N A"] | None = None,
    ) -> PendingUpdate:
        """Like `update`, but the gradient steps are left to the caller. `first_here`: the newest T rows of `first`, if
        they are known on the CPU."""
        self.replay.add(frames, actions, first, log_policy, first_here)
        shown = frames[-len(actions) - 1 :].flatten(0, 1)
        self.normaliser.observe(shown)
        self.background.observe(shown)
        batches: list[Tensor] = []
        for _ in range(self.config.passes):
            batches += self.replay.batches(self.config.fraction, self.config.batch, self.draws)
        return PendingUpdate(batches, lambda numbers: self.train_step(self.replay.gather(numbers)), self.device)

    def follow(self, models: "ControlModels") -> None:
        """Take over the weights and statistics of other models, into the very tensors that a CUDA graph reads."""
        mine, theirs = self.modules.state_dict(), models.modules.state_dict()
        for name, tensor in mine.items():
            tensor.copy_(theirs[name])
        self._stale = True
        self.normaliser.follow(models.normaliser)
        self.background.follow(models.background)

    def train_step(self, batch: Transitions) -> dict[str, Float[Tensor, ""]]:
        """One gradient step of both models, which share no parameter. Returns what is worth logging."""
        self.modules.train()
        self._stale = True
        chance = self.chance(len(batch.actions), self.noise)
        if not (self.records_steps and len(batch.actions) == self.config.batch):
            names, values = self._learn_from(batch, chance)
            return dict(zip(names, values.unbind(), strict=True))
        if self._batch is None or self._chance is None:
            self._batch, self._chance = batch, chance  # from now on this is the fixed place
        for place, tensor in zip((*self._batch, *self._chance), (*batch, *chance), strict=True):
            if place is not None and tensor is not None and place is not tensor:
                place.copy_(tensor)
        names, values = self._gradient_step()
        return dict(zip(names, values.clone().unbind(), strict=True))

    @property
    def records_steps(self) -> bool:
        """Whether gradient steps are CUDA graphs. They cannot be where the number of pairs is data."""
        return chosen(self.config.execution.graph, self.device) and not self.rtm.skips_pairs

    def _one_gradient_step(self) -> tuple[tuple[str, ...], Float[Tensor, "metrics"]]:
        assert self._batch is not None
        assert self._chance is not None
        return self._learn_from(self._batch, self._chance)

    def _learn_from(self, batch: Transitions, chance: Chance) -> tuple[tuple[str, ...], Float[Tensor, "metrics"]]:
        adm_loss, adm_metrics = self.adm_loss(batch)
        rtm_loss, rtm_metrics = self.rtm_loss(batch, chance)
        self.optimiser.zero_grad()
        (adm_loss + rtm_loss).backward()
        self.optimiser.step()
        metrics = adm_metrics | rtm_metrics
        return tuple(metrics), torch.stack([value.detach().float() for value in metrics.values()])

    def adm_loss(self, batch: Transitions) -> tuple[Float[Tensor, ""], dict[str, Float[Tensor, ""]]]:
        before = cell_rows(self.normaliser(batch.stack[:, -1:]), self.grid)  # (B, HW, pixels)
        now = cell_rows(self.normaliser(batch.now[:, None]), self.grid)
        with self.autocast():
            output = self.adm(before, now)
            prior = batch.log_policy if self.config.adm.policy_prior else torch.zeros_like(output.logits)
            losses = self.adm.losses(output, batch.actions.long(), prior)
        with torch.no_grad():
            metrics = {f"adm/{name}_loss": value.detach() for name, value in losses.items()}
            metrics["adm/accuracy"] = ((output.logits + prior).argmax(-1) == batch.actions).float().mean()
            metrics["adm/entropy"] = entropy(output.direct).mean()
            # What drawing the last frame again would cost RTM: the loss to beat.
            metrics["rtm/copy_loss"] = F.mse_loss(before, now)
        return torch.stack(list(losses.values())).sum(), metrics

    def rtm_loss(self, batch: Transitions, chance: Chance) -> tuple[Float[Tensor, ""], dict[str, Float[Tensor, ""]]]:
        source, target = self.see(batch.stack, chance.anchor), self._see_exactly(batch.now[:, None], chance.anchor)
        targets = None
        if chance.lots is not None:
            targets = cells_to_draw(batch.stack[:, -1], batch.now, chance.lots, self.n_drawn, self.grid)
        with self.autocast():
            output = self.rtm(source, batch.actions, target, targets)
            losses = self.rtm.losses(output, target, self.normaliser.scale)
        with torch.no_grad():
            metrics = {f"rtm/{name}_loss": value.detach() for name, value in losses.items()}
            metrics |= {
                "rtm/self_attention": output.relation.diagonal(dim1=1, dim2=2).mean(),
                "rtm/attended": (output.relation > 0).float().mean(),
            }
        return torch.stack(list(losses.values())).sum(), metrics

    def autocast(self) -> torch.autocast:
        # Without a cache of casts, so that a CUDA graph reads the weights themselves, as they change.
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16, cache_enabled=False)

    @torch.no_grad()
    def attend(
        self,
        stack: UInt8[Tensor, "N K px_h px_w"],
        actions: Int[Tensor, "N"],
        now: UInt8[Tensor, "N px_h px_w"],
        anchor: Float[Tensor, "N px_h px_w"] | None,
    ) -> ControlMaps:
        """Eq. 3 and Eq. 8 for one real transition of every environment, with the learnt statistics of BatchNorm."""
        self.refresh()
        cells = self.see(now[:, None])
        source, target = self.see(stack, anchor), self.see(now[:, None], anchor)
        if self._folded is not None:
            return ControlMaps(self._folded.direct(cells), self._folded.relation(source, actions, target))
        with self.autocast():
            return ControlMaps(self.adm.attend(cells), self.rtm.attend(source, actions, target))

    def refresh(self) -> None:
        """Prepare `attend` for the weights as they are. It does so itself; but who replays it as a CUDA graph must."""
        if self._stale and self.config.execution.folded != "off":
            self._folded = self._folded or FoldedAttention(self.adm, self.rtm, self._dtype)
            self._folded.refresh()
        self._stale = False

    @property
    def n_drawn(self) -> int:
        """Cells that Phi draws in each transition [D16]."""
        return math.ceil(self.config.rtm.targets * self.grid.n_cells)

    def chance(self, n: int, generator: torch.Generator) -> Chance:
        """The random numbers of a gradient step on n transitions."""
        anchor = self.anchor(n, generator)
        HW, everything = self.grid.n_cells, self.n_drawn == self.grid.n_cells
        return Chance(anchor, None if everything else torch.rand(n, HW, generator=generator, device=self.device))

    def anchor(self, n: int, generator: torch.Generator) -> Float[Tensor, "n px_h px_w"] | None:
        """A noise pattern for each of n samples, if there is an anchor [D6]."""
        config = self.config.rtm
        return anchor_noise(config.anchor_kind, n, self.grid, generator, self.device) if config.anchor else None

    def see(
        self, frames: UInt8[Tensor, "N K px_h px_w"], anchor: Float[Tensor, "N px_h px_w"] | None = None
    ) -> Float[Tensor, "N HW n_in"]:
        """The cells of stacks as the models see them: scaled, with the noise anchor [D6] on the newest frame."""
        if not self._fused_cells:
            return self._see_exactly(frames, anchor)
        from megareward.control.fast import fused_cells  # needs Triton, which a CPU may not have

        scale = (self.normaliser.mean, self.normaliser.std)
        return fused_cells.cell_rows(frames, *scale, anchor, self.config.rtm.anchor, self.grid, self._dtype)

    def _see_exactly(
        self, frames: UInt8[Tensor, "N K px_h px_w"], anchor: Float[Tensor, "N px_h px_w"] | None
    ) -> Float[Tensor, "N HW n_in"]:
        """`see` in float32, rows no wider than a cell."""
        scaled = self.normaliser(frames)
        if anchor is not None:
            newest = scaled[:, -1:] + self.config.rtm.anchor * anchor[:, None]
            scaled = torch.cat([scaled[:, :-1], newest], 1)
        return cell_rows(scaled, self.grid)

    def state_dict(self) -> dict[str, Tensor]:
        """Everything needed to go on exactly from here, as flat names and tensors."""
        state = {f"modules.{name}": tensor for name, tensor in self.modules.state_dict().items()}
        for name, parameter in self.modules.named_parameters():
            for key, value in self.optimiser.state.get(parameter, {}).items():
                state[f"optimiser.{name}.{key}"] = value
        state |= {f"normaliser.{name}": tensor for name, tensor in self.normaliser.state_dict().items()}
        state |= {f"background.{name}": tensor for name, tensor in self.background.state_dict().items()}
        state |= {f"replay.{name}": tensor for name, tensor in self.replay.state_dict().items()}
        return state | {"draws": self.draws.get_state(), "noise": self.noise.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        def part(prefix: str) -> dict[str, Tensor]:
            return {name.removeprefix(prefix): t for name, t in state.items() if name.startswith(prefix)}

        self.modules.load_state_dict(part("modules."))
        self._stale = True
        optimiser = self.optimiser.state_dict()
        moments = part("optimiser.")
        optimiser["state"] = {
            i: own
            for i, (name, _) in enumerate(self.modules.named_parameters())
            if (own := {key.removeprefix(f"{name}."): t for key, t in moments.items() if key.startswith(f"{name}.")})
        }
        self.optimiser.load_state_dict(optimiser)
        self._gradient_step.forget()  # it knew the old moments
        self.normaliser.load_state_dict(part("normaliser."))
        self.background.load_state_dict(part("background."))
        self.replay.load_state_dict(part("replay."), self.device)
        self.draws.set_state(state["draws"].cpu())
        set_rng_state(self.noise, state["noise"])


def chosen(switch: Switch, device: torch.device) -> bool:
    return switch == "on" or (switch == "auto" and device.type == "cuda")


def chosen_fused(switch: Switch, device: torch.device) -> bool:
    """Like `chosen`, as far as Triton is there."""
    available = device.type == "cuda" and importlib.util.find_spec("triton") is not None
    if switch == "on" and not available:
        raise UsageError(f"execution.fused is on, but there is no Triton for {device}; use auto or off.")
    return available and switch != "off"
