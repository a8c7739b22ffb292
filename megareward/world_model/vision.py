"""V: a frame as a few numbers, and back (a variational autoencoder).

Most of a frame is background that never changes, and a ball of two by two pixels is a thousandth of it: an autoencoder
that weights all pixels alike leaves it out. Here the background is learnt separately, pixel by pixel, and pixels that
differ from what they usually show have more weight.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from megareward.nets import TRUNKS, trunk_for, trunk_layers, trunk_units
from megareward.statistics.moments import Moments
from megareward.types import Float, Tensor, UInt8

UNUSUAL = 16.0
"""Grey levels by which a pixel must differ from its mean to count as changed."""


class Vision(nn.Module):
    """(B, px_h, px_w) frames <-> (B, z) codes, each a normal distribution."""

    def __init__(self, frame_shape: tuple[int, int], z: int) -> None:
        super().__init__()
        units, (convolutions, _) = trunk_units(frame_shape), TRUNKS[trunk_for(frame_shape)]
        self.encoder = nn.Sequential(*trunk_layers(frame_shape, 1, nn.ReLU()), nn.ReLU(), nn.Linear(units, 2 * z))
        features, (height, width) = [1, *(number for number, _, _ in convolutions)], frame_shape
        layers: list[nn.Module] = []
        for i, (_, kernel, stride) in enumerate(convolutions):
            height, width = (math.ceil((size - kernel) / stride) + 1 for size in (height, width))
            layers = [nn.ReLU(), nn.ConvTranspose2d(features[i + 1], features[i], kernel, stride), *layers]
        self.spread = nn.Sequential(
            nn.Linear(z, units),
            nn.ReLU(),
            nn.Linear(units, features[-1] * height * width),
            nn.Unflatten(1, (features[-1], height, width)),
        )
        self.decoder = nn.Sequential(*layers)
        self.background = nn.Parameter(torch.zeros(frame_shape))
        """The logit of each pixel where nothing is drawn over it."""

    @torch.no_grad()
    def begin_with(self, usual: Moments) -> None:
        """Initialise the background with the mean of every pixel."""
        self.background.copy_((usual.mean.float() / 255).clamp(0.01, 0.99).logit())

    def encode(self, frames: UInt8[Tensor, "B px_h px_w"]) -> tuple[Float[Tensor, "B z"], Float[Tensor, "B z"]]:
        """Mean and logarithm of the variance."""
        mean, log_variance = self.encoder(frames[:, None] / 255.0).chunk(2, 1)
        return mean, log_variance.clamp(-10, 10)

    def logits(self, z: Float[Tensor, "B z"]) -> Float[Tensor, "B px_h px_w"]:
        drawn = self.decoder(self.spread(z))[:, 0]  # as large as the frame, or larger
        px_h, px_w = self.background.shape
        return drawn[:, :px_h, :px_w] + self.background

    @torch.no_grad()
    def decode(self, z: Float[Tensor, "B z"]) -> UInt8[Tensor, "B px_h px_w"]:
        return (self.logits(z).sigmoid() * 255).round().to(torch.uint8)


def vision_loss(
    vision: Vision,
    frames: UInt8[Tensor, "B px_h px_w"],
    usual: Moments,
    changed_weight: float,
    kl_tolerance: float,
    noise: Float[Tensor, "B z"],
) -> dict[str, Float[Tensor, ""]]:
    """Cross-entropy of the pixels, weighted, and the information in the code beyond what is free, in nats."""
    mean, log_variance = vision.encode(frames)
    logits = vision.logits(mean + noise * (log_variance / 2).exp())
    changed = (frames - usual.mean.float()).abs() > UNUSUAL
    pixels = F.binary_cross_entropy_with_logits(logits, frames / 255.0, reduction="none")
    drawing = (pixels * (1 + changed_weight * changed)).sum((1, 2)).mean()
    kl = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)
    free = kl_tolerance * mean.shape[1]
    return {"drawing": drawing, "kl": kl.mean(), "total": drawing + kl.clamp(min=free).mean()}
