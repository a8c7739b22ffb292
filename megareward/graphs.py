"""CUDA graphs: record a fixed sequence of kernels once, then launch all of it at the price of one."""

from collections.abc import Callable
from typing import Generic, TypeVar

import torch

Result = TypeVar("Result")


class Replay(Generic[Result]):
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

    def _record(self) -> None:
        self.before()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.function()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._result = self.function()
        self._graph = graph
        self.after()
