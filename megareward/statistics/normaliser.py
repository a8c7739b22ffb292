"""Frames normalised by the statistics of the first ones."""

from collections.abc import Mapping
from typing import Literal

import torch

from megareward.statistics.moments import Moments
from megareward.types import Float, Tensor, UInt8


class Normaliser:
    """(frame - mean of each pixel) / std, where std is one number: the mean over pixels of each pixel's.

    The statistics come from the first `n_frames` frames and stay fixed from then on. `fixed` is frame / 255.
    """

    def __init__(
        self, kind: Literal["pixel", "fixed"], frame_shape: tuple[int, int], n_frames: int, device: torch.device
    ) -> None:
        self.kind, self.n_frames, self.n_seen = kind, n_frames, 0
        self.moments = Moments.empty(frame_shape, device)
        self.mean = torch.zeros(frame_shape, device=device)
        self.std = torch.tensor(255.0, device=device)

    def observe(self, frames: UInt8[Tensor, "B px_h px_w"]) -> None:
        """Add frames to the statistics, evenly spread over those given, until there are enough."""
        wanted = 0 if self.kind == "fixed" else min(self.n_frames - self.n_seen, len(frames))
        if wanted <= 0:
            return
        chosen = torch.linspace(0, len(frames) - 1, wanted).round().long().to(frames.device)
        for part in chosen.split(512):  # float64 copies of a few frames at a time
            self.moments = self.moments.update(frames[part])
        self.n_seen += wanted
        # In place: a captured CUDA graph reads these very tensors.
        self.mean.copy_(self.moments.mean)
        self.std.copy_(self.moments.std.mean().clamp(min=1.0))  # a constant screen must not divide by zero

    def __call__(self, frames: UInt8[Tensor, "*B px_h px_w"]) -> Float[Tensor, "*B px_h px_w"]:
        return (frames - self.mean) / self.std

    @property
    def scale(self) -> Float[Tensor, ""]:
        """The range of the observation, by which Phi's tanh is multiplied (R5)."""
        return 255.0 / self.std

    def copy_from(self, other: "Normaliser") -> None:
        """Copy the scaling of another normaliser, without its count of frames."""
        self.mean.copy_(other.mean)
        self.std.copy_(other.std)

    def state_dict(self) -> dict[str, Tensor]:
        return {**self.moments._asdict(), "n_seen": torch.tensor(self.n_seen), "pixel_mean": self.mean, "std": self.std}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        device = self.mean.device
        self.moments = Moments(*(state[name].to(device) for name in Moments._fields))
        self.mean.copy_(state["pixel_mean"])
        self.std.copy_(state["std"])
        self.n_seen = int(state["n_seen"])
