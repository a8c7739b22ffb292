"""The gradient steps for one rollout, to be taken when there is time."""

from collections import deque
from collections.abc import Callable, Iterable

import torch

from megareward.types import Float, Tensor

Metrics = dict[str, Float[Tensor, ""]]


class PendingUpdate:
    """Batches drawn in advance. Neither a step nor `finish` waits for the device."""

    def __init__(self, batches: Iterable[Tensor], train: Callable[[Tensor], Metrics], device: torch.device) -> None:
        """`train` makes one gradient step on the transitions whose numbers are in a batch."""
        self.left, self.train, self.device = deque(batches), train, device
        # A step is launched long before it runs. Until the update's CUDA stream has been waited for, the memory of its
        # batches must not be given to another stream.
        self._kept = tuple(self.left)
        self.n_used = 0
        self._steps: list[Metrics] = []

    def work(self, steps_left: int = 1) -> None:
        """Take 1 / `steps_left` of the remaining gradient steps, rounded up; 1 takes all of them."""
        for _ in range(-(-len(self.left) // steps_left)):
            batch = self.left.popleft()
            self._steps.append(self.train(batch))
            self.n_used += len(batch)

    def finish(self) -> Metrics:
        """Take the steps that are left. Returns means over all of them, still on the device."""
        self.work()
        names = self._steps[0] if self._steps else ()
        means = {name: torch.stack([step[name] for step in self._steps]).mean() for name in names}
        return means | {"control/transitions": torch.full((), float(self.n_used), device=self.device)}
