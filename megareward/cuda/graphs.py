"""CUDA graphs: capture a fixed sequence of kernels once, then launch all of it at the price of one."""

from collections.abc import Callable
from typing import Generic, TypeVar

import torch

Result = TypeVar("Result")


class CapturedFunction(Generic[Result]):
    """A function without arguments that reads and writes the same tensors at every call.

    On a GPU it is captured at its first call and replayed from then on; on the CPU (`enabled` False) it is simply
    called. Capturing runs the function three times for warm-up; the tensors that `restores` names are restored after
    that, so that those runs do not count.
    """

    def __init__(
        self,
        function: Callable[[], Result],
        *,
        enabled: bool,
        restores: Callable[[], list[torch.Tensor]] = list,
    ) -> None:
        self.function, self.enabled, self.restores = function, enabled, restores
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: Result

    def __call__(self) -> Result:
        if not self.enabled:
            return self.function()
        if self._graph is None:
            self._capture()
        assert self._graph is not None
        self._graph.replay()
        return self._result

    def forget(self) -> None:
        """Capture anew at the next call: some tensor that the function reads has been replaced by another."""
        self._graph = None

    def _capture(self) -> None:
        saved = [tensor.clone() for tensor in self.restores()]
        # A stream of its own: graphs captured on one stream share cuBLAS's scratch memory, and must not run side by
        # side. Of the caller's priority: the kernels keep the one they were captured with.
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
        for tensor, value in zip(self.restores(), saved, strict=True):
            tensor.copy_(value)


def training_state(optimiser: torch.optim.Optimizer) -> list[torch.Tensor]:
    """All that a gradient step changes: parameters and Adam's moments, which are made here if there are none yet."""
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    if not optimiser.state:  # Adam makes its moments in the first step: make them now, as zeros
        before = [p.detach().clone() for p in parameters]
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        optimiser.step()
        for parameter, value in zip(parameters, before, strict=True):
            parameter.data.copy_(value)
        for state in optimiser.state.values():
            state["step"].zero_()
    moments = [tensor for state in optimiser.state.values() for tensor in state.values()]
    return [*(p.data for p in parameters), *moments]
