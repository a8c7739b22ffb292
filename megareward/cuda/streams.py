"""Two CUDA streams: one for what the games wait for, one for work that may run beside it."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch


class CudaStreams:
    """On a GPU, a main stream of high priority and a side stream of low priority. Elsewhere everything is done at once,
    in the order of the calls, and the numbers are the same.

    Memory that one stream writes and the other reads needs a wait: work in `side` waits for all that was launched so
    far, and after `join` all later work waits for the side stream. No call makes the host wait.
    """

    def __init__(self, device: torch.device, *, enabled: bool = True) -> None:
        on_gpu = enabled and device.type == "cuda"
        self._main = torch.cuda.Stream(device, priority=-1) if on_gpu else None
        self._side = torch.cuda.Stream(device, priority=0) if on_gpu else None  # 0 is the lowest there is

    @contextmanager
    def main(self) -> Iterator[None]:
        """Kernels launched inside get ahead of those in the side stream; what follows outside waits for them."""
        if self._main is None:
            yield
            return
        outside = torch.cuda.current_stream()
        self._main.wait_stream(outside)
        with torch.cuda.stream(self._main):
            yield
        outside.wait_stream(self._main)

    @contextmanager
    def side(self) -> Iterator[None]:
        """Kernels launched inside run beside all that is launched afterwards, until `join`."""
        if self._side is not None:
            self._side.wait_stream(torch.cuda.current_stream())
        with nullcontext() if self._side is None else torch.cuda.stream(self._side):
            yield

    def join(self) -> None:
        """What is launched from now on waits for everything in the side stream."""
        if self._side is not None:
            torch.cuda.current_stream().wait_stream(self._side)
