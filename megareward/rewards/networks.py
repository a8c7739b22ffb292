"""What the learning rewards share: how a frame becomes features, and how networks are trained, saved and resumed."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import nn

from megareward.cuda.graphs import CapturedFunction, training_state
from megareward.nets import trunk_layers, trunk_units
from megareward.state import State, joined, load_optimiser_state, optimiser_state, part
from megareward.types import Float, Int, Tensor
from megareward.world import World

SLOPE = 0.2
"""Of LeakyReLU on the negative side: the sources ran on TensorFlow, whose default this is."""

PART = 1024
"""Frames that go through a network at once where no gradient is kept, so that memory does not grow with the rollout."""


def code_size(frame_shape: tuple[int, int]) -> int:
    """Size of a frame's code: 512 as in the sources, 128 below 64 pixels."""
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


def most_rows(n: int, fraction: float, number: int) -> int:
    """Rows of the largest of these `minibatches`."""
    return math.ceil(math.ceil(fraction * n) / number)


Losses = Callable[..., dict[str, Float[Tensor, ""]]]
"""(weight, *batch) -> what is logged, by name, and `total`, which is minimised. Rows of weight 0 do not count."""


class Learner:
    """Networks with their Adam; frozen parameters are saved, but not trained.

    A gradient step of such small networks is hundreds of kernels that take longer to launch than to run. With
    `world.cuda_graphs` the step is captured, and batches are copied into its fixed tensors.
    """

    def __init__(
        self,
        networks: nn.Module,
        learning_rate: float,
        world: World,
        losses: Losses,
        *,
        eps: float = 1e-8,
        max_grad_norm: float = math.inf,
    ) -> None:
        self.networks, self.losses = networks.to(world.device), losses
        self.captures, self.max_grad_norm = world.cuda_graphs, max_grad_norm
        self.trained = [parameter for parameter in self.networks.parameters() if parameter.requires_grad]
        on_gpu = world.device.type == "cuda"
        self.adam = torch.optim.Adam(self.trained, learning_rate, eps=eps, fused=True, capturable=on_gpu)
        self._captured: dict[int, CapturedStep] = {}

    def step(self, batch: Sequence[Tensor], rows: int) -> dict[str, Float[Tensor, ""]]:
        """One gradient step on a batch of at most `rows` rows. Returns the losses that are logged."""
        if not self.captures:
            return self.step_on(torch.ones(len(batch[0]), device=batch[0].device), *batch)
        if rows not in self._captured:
            self._captured[rows] = CapturedStep(self, batch, rows)
        return self._captured[rows](batch)

    def step_on(self, weight: Float[Tensor, "B"], *batch: Tensor) -> dict[str, Float[Tensor, ""]]:
        losses = self.losses(weight, *batch)
        self.adam.zero_grad(set_to_none=True)
        losses["total"].backward()
        if self.max_grad_norm < math.inf:
            nn.utils.clip_grad_norm_(self.trained, self.max_grad_norm)
        self.adam.step()
        return {name: loss.detach() for name, loss in losses.items() if name != "total"}

    def state_dict(self) -> State:
        return joined(networks=self.networks.state_dict(), adam=optimiser_state(self.adam))

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.networks.load_state_dict(part(state, "networks"))
        self.load_adam(part(state, "adam"))

    def load_adam(self, state: Mapping[str, Tensor]) -> None:
        load_optimiser_state(self.adam, state)
        self._captured.clear()  # they were captured with the old moments


class CapturedStep:
    """A learner's gradient step on batches of up to `rows` rows, which are copied into the same tensors every time."""

    def __init__(self, learner: Learner, like: Sequence[Tensor], rows: int) -> None:
        device = like[0].device
        self.weight = torch.zeros(rows, device=device)
        self.batch = [torch.zeros(rows, *x.shape[1:], dtype=x.dtype, device=device) for x in like]
        self.run = CapturedFunction(
            lambda: learner.step_on(self.weight, *self.batch),
            enabled=device.type == "cuda",
            restores=lambda: training_state(learner.adam),
        )

    def __call__(self, batch: Sequence[Tensor]) -> dict[str, Float[Tensor, ""]]:
        n = len(batch[0])
        self.weight.zero_()
        self.weight[:n] = 1.0
        for fixed, given in zip(self.batch, batch, strict=True):
            fixed[:n].copy_(given)
        return {name: loss.clone() for name, loss in self.run().items()}  # the next step writes over them
