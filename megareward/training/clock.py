"""Where the time of an iteration goes."""

import time

import torch


class Clock:
    """Seconds of one iteration by phase.

    A GPU runs asynchronously, so time on the host shows where it waited rather than for what. With `waits` every lap
    synchronises the caller's CUDA stream; the side stream goes on.
    """

    def __init__(self, waits: bool = False) -> None:
        self.seconds: dict[str, float] = {}
        self.waits = waits
        self.then = time.perf_counter()

    def lap(self, name: str) -> None:
        if self.waits:
            torch.cuda.current_stream().synchronize()
        now = time.perf_counter()
        key = f"seconds/{name}"
        self.seconds[key] = self.seconds.get(key, 0.0) + now - self.then
        self.then = now
