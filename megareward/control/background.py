"""The background of a game's screen: the median of each pixel over a sample of early frames."""

from collections.abc import Mapping

import torch

from megareward.control.grid import Grid
from megareward.control.observation import changed_cells
from megareward.types import Bool, Tensor, UInt8

SAMPLE = 256
"""Maximum number of frames that the median is taken over."""


def distance(n_seen: int) -> int:
    """Spacing of the sampled frames after `n_seen` frames: a power of 3; odd, so that it visits all environments."""
    every = 1
    while n_seen > SAMPLE * every:
        every *= 3
    return every


def median(sample: UInt8[Tensor, "B px_h px_w"]) -> UInt8[Tensor, "px_h px_w"]:
    """The median of each pixel; of two middle values, the lower. `Tensor.median` also returns indices, which vary on a
    GPU: so it is refused where only deterministic kernels may run, although its values are always the same."""
    if torch.are_deterministic_algorithms_enabled():
        return sample.sort(0).values[(len(sample) - 1) // 2]
    return sample.median(0).values


class Background:
    """The median of each pixel over a sample of the first `n_frames` frames, fixed from then on.

    Before the first frames are observed, no cell counts as background.
    """

    def __init__(self, frame_shape: tuple[int, int], n_frames: int, device: torch.device) -> None:
        self.n_frames, self.n_seen = n_frames, 0
        self.sample = torch.zeros(0, *frame_shape, dtype=torch.uint8, device=device)
        # Only updated in place: a captured CUDA graph reads these very tensors.
        self.frame = torch.zeros(frame_shape, dtype=torch.uint8, device=device)
        self.known = torch.zeros((), dtype=torch.bool, device=device)

    def observe(self, frames: UInt8[Tensor, "B px_h px_w"]) -> None:
        """Keep a sample spread evenly over all frames so far: every one at first, then every third, ninth, ... of them.
        Slices only, so that the host never waits for a GPU."""
        wanted = min(self.n_frames - self.n_seen, len(frames))
        if wanted <= 0:
            return
        before, every = distance(self.n_seen), distance(self.n_seen + wanted)
        skipped = -self.n_seen % every  # until the next one is due
        self.sample = torch.cat([self.sample[:: every // before], frames[skipped:wanted:every]])
        self.n_seen += wanted
        self.frame.copy_(median(self.sample))
        self.known.fill_(True)

    def shown(self, frames: UInt8[Tensor, "N px_h px_w"], grid: Grid) -> Bool[Tensor, "N HW"]:
        """Which cells show nothing but background."""
        return ~changed_cells(self.frame, frames, grid) & self.known

    def copy_from(self, other: "Background") -> None:
        """Take over another one's background; the sample and the count of frames are not copied."""
        self.frame.copy_(other.frame)
        self.known.copy_(other.known)

    def state_dict(self) -> dict[str, Tensor]:
        seen = torch.tensor(self.n_seen)
        return {"sample": self.sample, "frame": self.frame, "known": self.known, "n_seen": seen}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """An empty state, from a version that had no background yet, leaves the background unknown."""
        if not state:
            return
        self.sample = state["sample"].to(self.frame.device)
        self.frame.copy_(state["frame"])
        self.known.copy_(state["known"])
        self.n_seen = int(state["n_seen"])
