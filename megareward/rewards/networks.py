"""What the learning rewards share: how a frame becomes features, and how networks are trained, saved and resumed."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import nn

from megareward.errors import UsageError
from megareward.types import Float, Int, Tensor

TRUNKS: dict[str, tuple[tuple[tuple[int, int, int], ...], int]] = {
    # ((features, kernel, stride), ...), size of the code
    "nature": (((32, 8, 4), (64, 4, 2), (64, 3, 1)), 512),
    "small": (((16, 4, 2), (32, 3, 2)), 128),
}
NATURE_FROM = 64
"""Pixels of the shorter side from which a frame gets the sources' trunk; below, the small one, as in the policy."""

SLOPE = 0.2
"""Of LeakyReLU on the negative side: the sources ran on TensorFlow, whose default this is."""

PART = 1024
"""Frames that go through a network at once where no gradient is kept, so that memory does not grow with the rollout."""


def code_size(frame_shape: tuple[int, int]) -> int:
    """How many numbers describe a frame: 512 as in the sources, 128 below 64 pixels."""
    return _trunk(frame_shape)[1]


def encoder(frame_shape: tuple[int, int]) -> nn.Sequential:
    """(B, 1, px_h, px_w) scaled frames -> (B, F) codes: convolutions with LeakyReLU, then a linear layer."""
    convolutions, size = _trunk(frame_shape)
    layers: list[nn.Module] = []
    channels, (height, width) = 1, frame_shape
    for features, kernel, stride in convolutions:
        layers += [orthogonal(nn.Conv2d(channels, features, kernel, stride)), nn.LeakyReLU(SLOPE)]
        channels = features
        height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
    if min(height, width) < 1:
        raise UsageError(f"Frames of {frame_shape} pixels are too small for this reward; 7 by 7 is the least.")
    return nn.Sequential(*layers, nn.Flatten(), orthogonal(nn.Linear(channels * height * width, size)))


def _trunk(frame_shape: tuple[int, int]) -> tuple[tuple[tuple[int, int, int], ...], int]:
    return TRUNKS["nature" if min(frame_shape) >= NATURE_FROM else "small"]


def orthogonal(layer: nn.Conv2d | nn.Linear, gain: float = math.sqrt(2)) -> nn.Conv2d | nn.Linear:
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return layer


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

    def state_dict(self) -> dict[str, Tensor]:
        weights = {f"networks.{name}": tensor for name, tensor in self.networks.state_dict().items()}
        moments = self.adam.state_dict()["state"]
        return weights | {f"adam.{i}.{name}": x for i, own in moments.items() for name, x in own.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.networks.load_state_dict(part_of(state, "networks"))
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in part_of(state, "adam").items():
            number, key = name.split(".")
            moments.setdefault(int(number), {})[key] = tensor.clone()  # Adam would write into what it was given
        self.adam.load_state_dict({"state": moments, "param_groups": self.adam.state_dict()["param_groups"]})


def part_of(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors under one prefix, without it."""
    return {name.removeprefix(prefix + "."): x for name, x in state.items() if name.startswith(prefix + ".")}
