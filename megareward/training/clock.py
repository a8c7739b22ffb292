"""Where the time of an iteration goes."""

import time

import torch


class Clock:
    """Seconds of one iteration by what they were spent on.

    A GPU works behind the host's back, so the host's own time says where it waited rather than for what. With `waits`
    every lap ends when the CUDA stream of the caller is empty; the side stream goes on.
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
