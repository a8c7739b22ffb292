"""ADM and RTM as one thing that learns from rollouts and answers what is controlled."""

import importlib.util
from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from megareward import graphs
from megareward.control.adm import ADM, entropy
from megareward.control.config import ControlConfig, Switch
from megareward.control.grid import Grid
from megareward.control.layers import choose_execution
from megareward.control.observation import Normaliser, cell_rows, sign_noise
from megareward.control.replay import Replay, Transitions
from megareward.control.rtm import RTM
from megareward.errors import UsageError
from megareward.types import Bool, Float, Int, Tensor, UInt8


class ControlMaps(NamedTuple):
    direct: Float[Tensor, "N HW"]
    """alpha(s_t, a_{t-1}), Eq. 3."""
    relation: Float[Tensor, "N HW HW"]
    """alpha(s_t, s_{t-1})[to, from], Eq. 8."""


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
        choose_execution(
            self.modules,
            dense=None if how.dense == "auto" and on_cpu else chosen(how.dense, self.device),
            fused=chosen_fused(how.fused, self.device),
        )
        self.normaliser = Normaliser(config.normalise, frame_shape, config.normalise_frames, self.device)
        on_gpu = self.device.type == "cuda"
        self.optimiser = torch.optim.Adam(
            self.modules.parameters(), config.learning_rate, config.betas, fused=on_gpu, capturable=on_gpu
        )
        self.replay = Replay(config.replay, config.rtm.stack)
        self.draws = torch.Generator().manual_seed(seed)
        self.noise = torch.Generator(self.device).manual_seed(seed + 1)
        # A gradient step reads its batch from a fixed place, so that it can be a CUDA graph.
        self._batch: Transitions | None = None
        self._signs: Tensor | None = None
        aside = graphs.Aside(self.optimiser, lambda: list(self.modules.buffers()))
        self._gradient_step = graphs.Replay(self._one_gradient_step, enabled=True, before=aside.put, after=aside.back)

    def update(
        self, frames: UInt8[Tensor, "L N px_h px_w"], actions: Int[Tensor, "T N"], first: Bool[Tensor, "L N"]
    ) -> dict[str, float]:
        """Learn from a rollout and the few before it. Transitions across a reset are left out.

        frames[-1 - T + t] shows what actions[t] was chosen upon; frames before that are history for the stacks. `first`
        says which frames open an episode. Returns means over the gradient steps.
        """
        self.replay.add(frames, actions, first)
        self.normaliser.observe(frames[-len(actions) - 1 :].flatten(0, 1))
        steps: list[dict[str, Tensor]] = []
        n_used = 0
        for _ in range(self.config.passes):
            rows = self.replay.draw(self.config.fraction, self.draws)
            # BatchNorm dislikes small batches: a remainder is left out, unless there is nothing else.
            size = min(self.config.batch, len(rows))
            for part in rows[: len(rows) - len(rows) % size if size else 0].split(max(size, 1)):
                if len(part) >= 2:
                    steps.append(self.train_step(self.replay.gather(part)))
                    n_used += len(part)
        self.modules.eval()
        means = {name: torch.stack([step[name] for step in steps]).mean() for name in (steps[0] if steps else ())}
        values = torch.stack(list(means.values())).tolist() if means else []  # the one wait for the device
        return {**dict(zip(means, values, strict=True)), "control/transitions": float(n_used)}

    def train_step(self, batch: Transitions) -> dict[str, Float[Tensor, ""]]:
        """One gradient step of both models, which share no parameter. Returns what is worth logging."""
        self.modules.train()
        self._gradient_step.enabled = self.records_steps and len(batch.actions) == self.config.batch
        signs = self.signs(len(batch.actions), self.noise)
        if self._gradient_step.enabled and self._batch is not None:
            for place, tensor in zip(self._batch, batch, strict=True):
                place.copy_(tensor)
            if self._signs is not None and signs is not None:
                self._signs.copy_(signs)
        elif self._gradient_step.enabled:
            self._batch, self._signs = batch, signs
        names, values = self._gradient_step() if self._gradient_step.enabled else self._learn_from(batch, signs)
        return dict(zip(names, values.clone().unbind(), strict=True))

    @property
    def records_steps(self) -> bool:
        """Whether gradient steps are CUDA graphs. They cannot be where the number of pairs is data."""
        return chosen(self.config.execution.graph, self.device) and self.rtm.draws_all_pairs

    def _one_gradient_step(self) -> tuple[tuple[str, ...], Float[Tensor, "metrics"]]:
        assert self._batch is not None
        return self._learn_from(self._batch, self._signs)

    def _learn_from(
        self, batch: Transitions, signs: Float[Tensor, "B px_h px_w"] | None
    ) -> tuple[tuple[str, ...], Float[Tensor, "metrics"]]:
        adm_loss, adm_metrics = self.adm_loss(batch)
        rtm_loss, rtm_metrics = self.rtm_loss(batch, signs)
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
            losses = self.adm.losses(output, batch.actions.long())
        with torch.no_grad():
            metrics = {f"adm/{name}_loss": value.detach() for name, value in losses.items()}
            metrics["adm/accuracy"] = (output.logits.argmax(-1) == batch.actions).float().mean()
            metrics["adm/entropy"] = entropy(output.direct).mean()
            # What drawing the last frame again would cost RTM: the loss to beat.
            metrics["rtm/copy_loss"] = F.mse_loss(before, now)
        return torch.stack(list(losses.values())).sum(), metrics

    def rtm_loss(
        self, batch: Transitions, signs: Float[Tensor, "B px_h px_w"] | None
    ) -> tuple[Float[Tensor, ""], dict[str, Float[Tensor, ""]]]:
        source, target = self._anchored(self.normaliser(batch.stack), self.normaliser(batch.now), signs)
        with self.autocast():
            output = self.rtm(source, batch.actions, target, self.normaliser.scale)
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
        signs: Float[Tensor, "N px_h px_w"] | None,
    ) -> ControlMaps:
        """Eq. 3 and Eq. 8 for one real transition of every environment, with the learnt statistics of BatchNorm."""
        now_scaled = self.normaliser(now)
        source, target = self._anchored(self.normaliser(stack), now_scaled, signs)
        with self.autocast():
            direct = self.adm.attend(cell_rows(now_scaled[:, None], self.grid))
            return ControlMaps(direct, self.rtm.attend(source, actions, target))

    def signs(self, n: int, generator: torch.Generator) -> Float[Tensor, "n px_h px_w"] | None:
        """A noise pattern for each of n samples, if there is an anchor [D6]."""
        return sign_noise(n, self.frame_shape, generator, self.device) if self.config.rtm.anchor else None

    def _anchored(self, stack: Tensor, now: Tensor, signs: Tensor | None) -> tuple[Tensor, Tensor]:
        """Source and target cells of RTM, with the noise anchor [D6] on the newest frame of each."""
        if signs is not None:
            pattern = self.config.rtm.anchor * signs
            stack = torch.cat([stack[:, :-1], stack[:, -1:] + pattern[:, None]], 1)
            now = now + pattern
        return cell_rows(stack, self.grid), cell_rows(now[:, None], self.grid)

    def state_dict(self) -> dict[str, Tensor]:
        """Everything needed to go on exactly from here, as flat names and tensors."""
        state = {f"modules.{name}": tensor for name, tensor in self.modules.state_dict().items()}
        for name, parameter in self.modules.named_parameters():
            for key, value in self.optimiser.state.get(parameter, {}).items():
                state[f"optimiser.{name}.{key}"] = value
        state |= {f"normaliser.{name}": tensor for name, tensor in self.normaliser.state_dict().items()}
        state |= {f"replay.{name}": tensor for name, tensor in self.replay.state_dict().items()}
        return state | {"draws": self.draws.get_state(), "noise": self.noise.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        def part(prefix: str) -> dict[str, Tensor]:
            return {name.removeprefix(prefix): t for name, t in state.items() if name.startswith(prefix)}

        self.modules.load_state_dict(part("modules."))
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
        self.replay.load_state_dict(part("replay."), self.device)
        self.draws.set_state(state["draws"].cpu())
        self.noise.set_state(state["noise"].cpu())


def chosen(switch: Switch, device: torch.device) -> bool:
    return switch == "on" or (switch == "auto" and device.type == "cuda")


def chosen_fused(switch: Switch, device: torch.device) -> bool:
    """Like `chosen`, as far as Triton is there."""
    available = device.type == "cuda" and importlib.util.find_spec("triton") is not None
    if switch == "on" and not available:
        raise UsageError(f"execution.fused is on, but there is no Triton for {device}; use auto or off.")
    return available and switch != "off"
