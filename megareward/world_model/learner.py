"""V and M together: how they learn from a rollout, and how they are saved."""

from collections.abc import Mapping

import torch
from torch import nn

from megareward.nets import trunk_units
from megareward.rng import set_rng_state
from megareward.state import State, joined, load_optimiser_state, optimiser_state, part
from megareward.statistics.moments import Moments
from megareward.types import Bool, Float, Int, Tensor, UInt8
from megareward.world_model.config import WorldConfig
from megareward.world_model.memory import Memory, memory_loss
from megareward.world_model.vision import Vision, vision_loss

AT_ONCE = 1024
"""Frames that are encoded at a time where no gradient is kept."""
MAX_GRAD_NORM = 1.0
"""Of M (source)."""
M_PARTS = 4
"""Gradient steps of M in a pass: each learns from the sequences of a quarter of the environments."""
M_METRICS = ("code", "end", "against_copy")


class WorldModel:
    def __init__(
        self, config: WorldConfig, frame_shape: tuple[int, int], n_actions: int, device: torch.device, seed: int
    ) -> None:
        self.config, self.device = config, device
        self.hidden = trunk_units(frame_shape)
        """Size of M's state: 512, and 128 for small frames (source: 256 and 512)."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.vision = Vision(frame_shape, config.z).to(device)
            self.memory = Memory(config.z, n_actions, self.hidden, config.mixtures).to(device)
        self.networks = nn.ModuleDict({"vision": self.vision, "memory": self.memory})
        self.adams = {
            name: torch.optim.Adam(network.parameters(), config.learning_rate, fused=True)
            for name, network in self.networks.items()
        }
        self.usual = Moments.empty(frame_shape, device)
        """Running statistics of each pixel."""
        self.draws = torch.Generator(device).manual_seed(seed)

    @torch.no_grad()
    def codes(self, frames: UInt8[Tensor, "B px_h px_w"]) -> tuple[Float[Tensor, "B z"], Float[Tensor, "B z"]]:
        """V's mean and logarithm of the variance, without gradient."""
        parts = [self.vision.encode(some) for some in frames.split(AT_ONCE)]
        return torch.cat([mean for mean, _ in parts]), torch.cat([log_variance for _, log_variance in parts])

    def update(
        self,
        frames: UInt8[Tensor, "T_plus_1 N px_h px_w"],
        actions: Int[Tensor, "T N"],
        first: Bool[Tensor, "T_plus_1 N"],
        ends: Bool[Tensor, "T_plus_1 N"],
        state: tuple[Float[Tensor, "N hidden"], Float[Tensor, "N hidden"]],
    ) -> dict[str, Float[Tensor, ""]]:
        """Learn from a rollout; `state` is M's before its first frame. Returns metrics."""
        return self._learn_to_see(frames[1:].flatten(0, 1)) | self._learn_to_foresee(
            frames, actions, first, ends, state
        )

    def _learn_to_see(self, frames: UInt8[Tensor, "B px_h px_w"]) -> dict[str, Float[Tensor, ""]]:
        config, begins = self.config, not bool(self.usual.n)
        for some in frames.split(AT_ONCE):
            self.usual = self.usual.update(some)
        if begins:
            self.vision.begin_with(self.usual)
        losses = []
        for _ in range(config.v_passes):
            order = torch.randperm(len(frames), generator=self.draws, device=self.device)
            for index in order.split(config.batch):
                noise = self._normal(len(index), config.z)
                of = vision_loss(
                    self.vision, frames[index], self.usual, config.changed_weight, config.kl_tolerance, noise
                )
                self._step("vision", of["total"])
                losses.append(torch.stack([of["drawing"], of["kl"]]).detach())
        drawing, kl = torch.stack(losses).mean(0)
        return {"drawing": drawing, "kl": kl}

    def _learn_to_foresee(
        self, frames: Tensor, actions: Tensor, first: Tensor, ends: Tensor, state: tuple[Tensor, Tensor]
    ) -> dict[str, Float[Tensor, ""]]:
        mean, log_variance = (x.view(*frames.shape[:2], -1) for x in self.codes(frames.flatten(0, 1)))
        losses = []
        for _ in range(self.config.m_passes):
            z = mean + self._normal(*mean.shape) * (log_variance / 2).exp()
            order = torch.randperm(z.shape[1], generator=self.draws, device=self.device)
            for n in order.chunk(M_PARTS):
                own = (state[0][n], state[1][n])
                of = memory_loss(self.memory, z[:, n], actions[:, n], first[:, n], ends[:, n], own)
                self._step("memory", of["total"], MAX_GRAD_NORM)
                losses.append(torch.stack([of[name].detach() for name in M_METRICS]))
        return dict(zip(M_METRICS, torch.stack(losses).mean(0), strict=True))

    def _normal(self, *shape: int) -> Tensor:
        return torch.empty(shape, device=self.device).normal_(generator=self.draws)

    def _step(self, name: str, loss: Float[Tensor, ""], max_norm: float = float("inf")) -> None:
        self.adams[name].zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.networks[name].parameters(), max_norm)
        self.adams[name].step()

    def state_dict(self) -> State:
        adams = {f"adam.{name}": optimiser_state(adam) for name, adam in self.adams.items()}
        usual = {name: tensor.clone() for name, tensor in self.usual._asdict().items()}
        networks = {name: tensor.clone() for name, tensor in self.networks.state_dict().items()}
        return joined(networks=networks, usual=usual, **adams) | {"draws": self.draws.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.networks.load_state_dict(part(state, "networks"))
        for name, adam in self.adams.items():
            load_optimiser_state(adam, part(state, f"adam.{name}"))
        self.usual = Moments(**{name: x.to(self.device) for name, x in part(state, "usual").items()})
        set_rng_state(self.draws, state["draws"])
