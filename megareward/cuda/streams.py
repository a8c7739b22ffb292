"""Two lanes of a GPU: what the games wait for, and what may take its time beside them."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch


class CudaStreams:
    """On a GPU, a front lane of high priority and a back lane of low priority. Elsewhere there is one lane: everything
    is done at once, in the order of the calls, and the numbers are the same.

    Who writes memory in one lane that the other reads must stand behind it: `back` enters behind all that was launched
    so far, `join` puts what comes next behind the back lane. No call makes the host wait.
    """

    def __init__(self, device: torch.device, *, enabled: bool = True) -> None:
        on_gpu = enabled and device.type == "cuda"
        self._front = torch.cuda.Stream(device, priority=-1) if on_gpu else None
        self._back = torch.cuda.Stream(device, priority=0) if on_gpu else None  # 0 is the lowest there is

    @contextmanager
    def main(self) -> Iterator[None]:
        """Kernels launched inside get ahead of those in the back lane; what follows outside stands behind them."""
        if self._front is None:
            yield
            return
        outside = torch.cuda.current_stream()
        self._front.wait_stream(outside)
        with torch.cuda.stream(self._front):
            yield
        outside.wait_stream(self._front)

    @contextmanager
    def side(self) -> Iterator[None]:
        """Kernels launched inside run beside all that is launched afterwards, until `join`."""
        if self._back is not None:
            self._back.wait_stream(torch.cuda.current_stream())
        with nullcontext() if self._back is None else torch.cuda.stream(self._back):
            yield

    def join(self) -> None:
        """What is launched from now on stands behind everything in the back lane."""
        if self._back is not None:
            torch.cuda.current_stream().wait_stream(self._back)
