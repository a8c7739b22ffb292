"""Motion segmentation (MOREL, Goel et al. 2018): which pixels moved together since the last frame, and how far.

A network sees the newest frames and predicts K masks, a translation for each and one of the camera. Together they are
an optical flow; the last frame, warped by it, should be the newest one. Nothing but frames is needed to learn this. The
numbers [morel-1] ... are the deviations in docs/objects.md.
"""

from typing import NamedTuple

import torch
from torch import nn

from megareward.nets import orthogonal, trunk_for, trunk_layers, trunk_units
from megareward.types import Float, Tensor, UInt8

COARSEST = 4
"""The masks grow from a map of a quarter of the frame's side, doubled twice (source)."""
SSIM_WINDOW, SSIM_SIGMA = 11, 1.5
SSIM_C1, SSIM_C2 = 0.01**2, 0.03**2
"""Wang et al. 2004, for pixels in [0, 1]."""
FEW = -3.0
"""Logit of every mask at first: nearly nothing moves, so that the first steps need not undo a random flow [morel-2]."""
SPREAD = 0.05
"""Std of the initial translations, as a share of the frame's side. Masks that start with different translations only
have to find their pixels; from translations of 0 neither masks nor translations would have a gradient [morel-2]."""


class Motion(NamedTuple):
    """Predicted motion from the last frame to the newest; distances in pixels, down and right."""

    masks: Float[Tensor, "B K px_h px_w"]
    """In [0, 1], over the newest frame: how much each pixel is part of each object."""
    translations: Float[Tensor, "B K 2"]
    camera: Float[Tensor, "B 2"]

    @property
    def own(self) -> Float[Tensor, "B 2 px_h px_w"]:
        """How far each pixel of the newest frame has moved by itself: sum_k M_k t_k."""
        return torch.einsum("bkhw,bkd->bdhw", self.masks, self.translations)

    @property
    def flow(self) -> Float[Tensor, "B 2 px_h px_w"]:
        """`own` plus the motion of the camera."""
        return self.own + self.camera[:, :, None, None]

    @property
    def effort(self) -> Float[Tensor, ""]:
        """The regulariser: mean |M_k t_k|. An object costs its size times its distance; the camera moves all pixels
        and costs like a mask of them all [morel-4]."""
        size = self.masks.flatten(2).mean(-1)  # (B, K)
        objects = (size * self.translations.abs().sum(-1)).sum(-1)
        return (objects + self.camera.abs().sum(-1)).mean() / self.masks.shape[1]

    def union(self) -> Float[Tensor, "B px_h px_w"]:
        """All objects as one mask: 1 where a pixel has moved by itself, by a pixel or more [morel-5]."""
        return self.own.abs().sum(1).clamp(max=1.0)


class MotionHeads(nn.Module):
    """(B, units) of a trunk -> `Motion`. Separate from the trunk, so that they can use a policy's."""

    def __init__(
        self, frame_shape: tuple[int, int], units: int, n_masks: int, channels: int | None, detail: bool
    ) -> None:
        """`channels`: where it is None 24, or 8 for small frames. `detail`: the last layer also sees the last two
        frames themselves [morel-3]."""
        super().__init__()
        self.frame_shape, self.n_masks = frame_shape, n_masks
        self.channels = channels = channels or (8 if trunk_for(frame_shape) == "small" else 24)
        self.coarse = (-(-frame_shape[0] // COARSEST), -(-frame_shape[1] // COARSEST))
        self.spread = orthogonal(nn.Linear(units, channels * self.coarse[0] * self.coarse[1]))
        self.refine = nn.ModuleList(orthogonal(nn.Conv2d(channels, channels, 3, padding=1)) for _ in range(2))
        self.detail = orthogonal(nn.Conv2d(2, channels, 5, padding=2)) if detail else None
        self.masks = orthogonal(nn.Conv2d(channels, n_masks, 1), gain=1.0)
        nn.init.constant_(self.masks.bias, FEW)  # type: ignore[arg-type]
        self.translations = orthogonal(nn.Linear(units, 2 * n_masks), gain=0.1)
        nn.init.normal_(self.translations.bias, std=SPREAD * max(frame_shape))
        self.camera = orthogonal(nn.Linear(units, 2), gain=0.0)

    def forward(self, features: Float[Tensor, "B units"], stacks: UInt8[Tensor, "B C px_h px_w"]) -> Motion:
        px_h, px_w = self.frame_shape
        x = self.spread(features).view(-1, self.channels, *self.coarse)
        for size, convolution in zip((((px_h + 1) // 2, (px_w + 1) // 2), (px_h, px_w)), self.refine, strict=True):
            x = resized(x, size)
            x = x + convolution(x)
            if self.detail is not None and size == (px_h, px_w):
                x = x + self.detail(stacks[:, -2:] / 255.0)
            x = torch.relu(x)
        translations = self.translations(features).view(-1, self.n_masks, 2)
        return Motion(torch.sigmoid(pointwise(self.masks, x)), translations, self.camera(features))


class MotionSegmentation(nn.Module):
    """A trunk of its own, which sees two frames as in the source, and its `MotionHeads`."""

    def __init__(self, frame_shape: tuple[int, int], n_masks: int, channels: int | None, detail: bool) -> None:
        super().__init__()
        self.trunk = nn.Sequential(*trunk_layers(frame_shape, 2, nn.ReLU()), nn.ReLU())
        self.heads = MotionHeads(frame_shape, trunk_units(frame_shape), n_masks, channels, detail)

    def forward(self, stacks: UInt8[Tensor, "B C px_h px_w"]) -> Motion:
        return self.heads(self.trunk(stacks[:, -2:] / 255.0), stacks)


def pointwise(convolution: nn.Conv2d, x: Float[Tensor, "B C px_h px_w"]) -> Float[Tensor, "B K px_h px_w"]:
    """A convolution of 1 x 1 as products of matrices, with its gradient a tenth of the time on a CPU."""
    assert convolution.bias is not None
    weight = convolution.weight.flatten(1).expand(len(x), -1, -1)  # (B, K, C)
    return torch.baddbmm(convolution.bias[:, None], weight, x.flatten(2)).unflatten(2, x.shape[2:])


def warp(frames: Float[Tensor, "B px_h px_w"], flow: Float[Tensor, "B 2 px_h px_w"]) -> Float[Tensor, "B px_h px_w"]:
    """Each pixel p shows `frames` at p - flow(p): bilinear between pixels, the border repeated beyond it.

    Only the flow has a gradient; that of torch's `grid_sample` is added up in no fixed order on a GPU.
    """
    px_h, px_w = frames.shape[-2:]
    row = (torch.arange(px_h, device=frames.device)[:, None] - flow[:, 0]).clamp(0, px_h - 1)  # (B, px_h, px_w)
    column = (torch.arange(px_w, device=frames.device) - flow[:, 1]).clamp(0, px_w - 1)
    top, left = row.detach().floor(), column.detach().floor()
    warped = torch.zeros_like(frames)
    for down in (0, 1):
        for across in (0, 1):
            y, x = (top + down).clamp(max=px_h - 1), (left + across).clamp(max=px_w - 1)
            pixels = frames.flatten(1).gather(1, (y * px_w + x).long().flatten(1)).view_as(frames)
            share = (1 - (row - top - down).abs()) * (1 - (column - left - across).abs())
            warped = warped + share * pixels
    return warped


def resized(x: Float[Tensor, "B C h w"], size: tuple[int, int]) -> Float[Tensor, "B C px_h px_w"]:
    """Bilinear, by matrices: equal to `F.interpolate`, whose gradient a GPU adds up in no fixed order."""

    def matrix(to: int, of: int) -> Tensor:
        place = ((torch.arange(to, device=x.device) + 0.5) * (of / to) - 0.5).clamp(0, of - 1)
        return (1 - (place[:, None] - torch.arange(of, device=x.device)).abs()).clamp(min=0).to(x.dtype)

    return matrix(size[0], x.shape[-2]) @ x @ matrix(size[1], x.shape[-1]).T


def dssim(one: Float[Tensor, "B px_h px_w"], two: Float[Tensor, "B px_h px_w"]) -> Float[Tensor, "B px_h px_w"]:
    """(1 - SSIM) / 2 around every pixel: 0 where they are the same, at most 1."""
    over_rows, over_columns = (blur_matrix(side, one) for side in one.shape[-2:])
    images = torch.stack([one, two, one * one, two * two, one * two])
    mean_1, mean_2, square_1, square_2, product = over_rows @ images @ over_columns.T
    variances = square_1 - mean_1**2 + square_2 - mean_2**2
    covariance = product - mean_1 * mean_2
    luminance = (2 * mean_1 * mean_2 + SSIM_C1) / (mean_1**2 + mean_2**2 + SSIM_C1)
    structure = (2 * covariance + SSIM_C2) / (variances + SSIM_C2)
    return (1 - luminance * structure) / 2


def blur_matrix(side: int, like: Tensor) -> Float[Tensor, "side side"]:
    """SSIM's Gaussian window along one axis, the border repeated, as a matrix: faster than a convolution everywhere."""
    reach, pixels = SSIM_WINDOW // 2, torch.arange(side, device=like.device)
    way = torch.arange(-reach, reach + 1, device=like.device)
    kernel = torch.softmax(-(way.to(like.dtype) ** 2) / (2 * SSIM_SIGMA**2), 0)
    seen = (pixels[:, None] + way).clamp(0, side - 1)  # (side, window)
    return ((seen[..., None] == pixels) * kernel[:, None]).sum(1)


def motion_loss(
    motion: Motion, stacks: UInt8[Tensor, "B C px_h px_w"], regularisation: float | Tensor
) -> Float[Tensor, ""]:
    """DSSIM between the newest frame and the last one warped to it [morel-1], plus the effort.

    Where an episode begins a stack repeats its first frame: nothing moves there, and nothing is learnt across games.
    """
    last, newest = stacks[:, -2] / 255.0, stacks[:, -1] / 255.0
    return dssim(warp(last, motion.flow), newest).mean() + regularisation * motion.effort
