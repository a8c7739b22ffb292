"""What a screen shows where nothing is going on."""

from collections.abc import Mapping

import torch

from megareward.control.grid import Grid
from megareward.control.observation import changed_cells
from megareward.types import Bool, Tensor, UInt8

SAMPLE = 256
"""Frames of which the median is taken, at most."""


class Background:
    """[D22] The median of each pixel over a sample of the first `n_frames` frames, fixed from then on.

    Before it has seen anything it knows nothing, and no cell counts as background.
    """

    def __init__(self, frame_shape: tuple[int, int], n_frames: int, device: torch.device) -> None:
        self.n_frames, self.n_seen = n_frames, 0
        self.sample = torch.zeros(0, *frame_shape, dtype=torch.uint8, device=device)
        # At a fixed place: a captured CUDA graph reads these very tensors.
        self.frame = torch.zeros(frame_shape, dtype=torch.uint8, device=device)
        self.known = torch.zeros((), dtype=torch.bool, device=device)

    def observe(self, frames: UInt8[Tensor, "B px_h px_w"]) -> None:
        """Take every so-manieth frame into the sample. A slice, so that a GPU need not be asked."""
        wanted = min(self.n_frames - self.n_seen, len(frames))
        every = -(-self.n_frames // SAMPLE) | 1  # odd, to meet every environment in turn
        skipped = -self.n_seen % every  # until the next one is due
        self.n_seen += max(wanted, 0)
        if skipped >= wanted:
            return
        self.sample = torch.cat([self.sample, frames[skipped:wanted:every]])
        self.frame.copy_(self.sample.median(0).values)
        self.known.fill_(True)

    def shown(self, frames: UInt8[Tensor, "N px_h px_w"], grid: Grid) -> Bool[Tensor, "N HW"]:
        """Which cells show nothing else."""
        return ~changed_cells(self.frame, frames, grid) & self.known

    def follow(self, other: "Background") -> None:
        """Know what another one knows; what it has seen stays its own."""
        self.frame.copy_(other.frame)
        self.known.copy_(other.known)

    def state_dict(self) -> dict[str, Tensor]:
        seen = torch.tensor(self.n_seen)
        return {"sample": self.sample, "frame": self.frame, "known": self.known, "n_seen": seen}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """A state without a background was saved before there was one: it stays unknown."""
        if not state:
            return
        self.sample = state["sample"].to(self.frame.device)
        self.frame.copy_(state["frame"])
        self.known.copy_(state["known"])
        self.n_seen = int(state["n_seen"])
