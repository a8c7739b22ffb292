"""What the learning rewards share: how a frame becomes features, and how networks are trained, saved and resumed."""

import math
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import nn

from megareward.nets import trunk_layers, trunk_units
from megareward.state import State, joined, load_optimiser_state, optimiser_state, part
from megareward.types import Float, Int, Tensor

SLOPE = 0.2
"""Of LeakyReLU on the negative side: the sources ran on TensorFlow, whose default this is."""

PART = 1024
"""Frames that go through a network at once where no gradient is kept, so that memory does not grow with the rollout."""


def code_size(frame_shape: tuple[int, int]) -> int:
    """How many numbers describe a frame: 512 as in the sources, 128 below 64 pixels."""
    return trunk_units(frame_shape)


def encoder(frame_shape: tuple[int, int]) -> nn.Sequential:
    """(B, 1, px_h, px_w) scaled frames -> (B, F) codes: convolutions with LeakyReLU, then a linear layer."""
    return nn.Sequential(*trunk_layers(frame_shape, 1, nn.LeakyReLU(SLOPE)))


@torch.no_grad()
def in_parts(function: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """function(rows) without gradient, some rows at a time."""
    return torch.cat([function(part) for part in rows.split(PART)])


def minibatches(
    n: int, fraction: float, number: int, epochs: int, generator: torch.Generator
) -> Iterator[Int[Tensor, "B"]]:
    """Indices below n: in every epoch a fresh share of them, in random order, cut into `number` parts."""
    for _ in range(epochs):
        order = torch.randperm(n, generator=generator, device=generator.device)[: math.ceil(fraction * n)]
        yield from (part for part in order.chunk(number) if len(part))


def means_of(steps: list[dict[str, Float[Tensor, ""]]]) -> dict[str, Float[Tensor, ""]]:
    """Metrics averaged over gradient steps; none where there were no steps, as in a rollout of resets only."""
    return {name: torch.stack([step[name].detach() for step in steps]).mean() for name in (steps[0] if steps else ())}


class Learner:
    """Networks with their Adam; frozen parameters are saved, but not trained."""

    def __init__(self, networks: nn.Module, learning_rate: float, device: torch.device) -> None:
        self.networks = networks.to(device)
        trained = [parameter for parameter in self.networks.parameters() if parameter.requires_grad]
        self.adam = torch.optim.Adam(trained, learning_rate, fused=True)

    def step(self, loss: Float[Tensor, ""]) -> None:
        self.adam.zero_grad(set_to_none=True)
        loss.backward()
        self.adam.step()

    def state_dict(self) -> State:
        return joined(networks=self.networks.state_dict(), adam=optimiser_state(self.adam))

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.networks.load_state_dict(part(state, "networks"))
        load_optimiser_state(self.adam, part(state, "adam"))
