"""CUDA graphs: record a fixed sequence of kernels once, then launch all of it at the price of one."""

from collections.abc import Callable
from typing import Generic, TypeVar

import torch

Result = TypeVar("Result")


class CapturedFunction(Generic[Result]):
    """A function without arguments that reads and writes the same tensors at every call.

    On a GPU it is recorded at its first call and replayed from then on; on the CPU it is simply called. Recording
    runs the function three times for warm-up, so `before` and `after` can put aside and restore what it changes.
    """

    def __init__(
        self,
        function: Callable[[], Result],
        *,
        enabled: bool,
        before: Callable[[], None] = lambda: None,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        self.function, self.enabled, self.before, self.after = function, enabled, before, after
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: Result

    def __call__(self) -> Result:
        if not self.enabled:
            return self.function()
        if self._graph is None:
            self._record()
        assert self._graph is not None
        self._graph.replay()
        return self._result

    def forget(self) -> None:
        """Record anew at the next call: some tensor that the function reads has been replaced by another."""
        self._graph = None

    def _record(self) -> None:
        self.before()
        # A stream of its own: graphs recorded on one stream share cuBLAS's scratch memory, and must not run side by
        # side. Of the caller's priority: the kernels keep the one they were recorded with.
        side = torch.cuda.Stream(priority=torch.cuda.current_stream().priority)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.function()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            self._result = self.function()
        self._graph = graph
        self.after()


class TrainingSnapshot:
    """Recording a gradient step trains for real. This puts aside what that changes, and puts it back."""

    def __init__(self, optimiser: torch.optim.Optimizer, others: Callable[[], list[torch.Tensor]]) -> None:
        """`others`: what changes beside the optimiser's parameters and moments, such as running statistics."""
        self.optimiser, self.others = optimiser, others
        self._saved: list[torch.Tensor] = []

    def save(self) -> None:
        if not self.optimiser.state:  # Adam makes its moments in the first step: make them now, as zeros
            before = [p.detach().clone() for p in self._parameters()]
            for parameter in self._parameters():
                parameter.grad = torch.zeros_like(parameter)
            self.optimiser.step()
            for parameter, value in zip(self._parameters(), before, strict=True):
                parameter.data.copy_(value)
            for state in self.optimiser.state.values():
                state["step"].zero_()
        self._saved = [tensor.clone() for tensor in self._all()]

    def restore(self) -> None:
        for tensor, value in zip(self._all(), self._saved, strict=True):
            tensor.copy_(value)
        self._saved = []

    def _parameters(self) -> list[torch.Tensor]:
        return [p for group in self.optimiser.param_groups for p in group["params"]]

    def _all(self) -> list[torch.Tensor]:
        moments = [tensor for state in self.optimiser.state.values() for tensor in state.values()]
        return [*(p.data for p in self._parameters()), *moments, *self.others()]
