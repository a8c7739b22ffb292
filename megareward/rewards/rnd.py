"""Random network distillation (Burda et al. 2018b): what has been seen often is predicted well, what is new is not.

A fixed random network, the target, gives every frame a code; a second network learns to predict that code from the
frames seen so far. The prediction error is the reward. The numbers [rnd-1] ... are the deviations in docs/methods.md.

With a mask (G-RND, A-RND of the paper) both networks see only the cells in which a control map is above its own running
mean; what is new elsewhere, such as a noisy TV, is invisible to them. Any recorded map can be the mask; M-RND's is of
what moves, pixel by pixel.
"""

import itertools
import math
from collections.abc import Mapping

import torch
from torch import nn

from megareward.nets import orthogonal
from megareward.rewards.interface import RewardTerm
from megareward.rewards.networks import (
    PART,
    Learner,
    code_size,
    encoder,
    means_of,
    minibatches,
    most_rows,
)
from megareward.rewards.settings import RndConfig
from megareward.rng import set_rng_state
from megareward.rollout import Recorded
from megareward.state import part
from megareward.statistics.moments import Moments
from megareward.statistics.weighted import weighted_mean
from megareward.types import Bool, Float, Tensor, UInt8
from megareward.world import World

CLIP = 5.0
"""Bound of a scaled pixel (Burda et al.)."""
LEAST_STD = 0.01
"""Grey levels. A pixel that never changed has no standard deviation; when it does change, it is new: clipped to +-5."""
LEAST_MOTION = 64
"""In 255ths of a pixel: the mask `masks` shows what has moved by a quarter of a pixel or more."""
OBSERVED_AT_ONCE = 512
"""Frames turned into float64 at a time."""


class RND:
    def __init__(self, config: RndConfig, world: World) -> None:
        self.config, self.device = config, world.device
        self.fraction = config.update_fraction or min(1.0, 32 / world.n_envs)
        F = code_size(world.frame_shape)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(world.seed)
            self.target = encoder(world.frame_shape).requires_grad_(False)
            self.predictor = nn.Sequential(
                encoder(world.frame_shape),
                nn.ReLU(),
                *(orthogonal(nn.Linear(F, F)), nn.ReLU()),
                orthogonal(nn.Linear(F, F)),
            )
        networks = nn.ModuleDict({"target": self.target, "predictor": self.predictor})
        self.learner = Learner(networks, config.learning_rate, world, self.losses)
        self.moments = Moments.empty(world.frame_shape, world.device)
        self.cells = world.frame_shape if config.masks_pixels else world.cells
        self.usual = Moments.empty((math.prod(self.cells),), world.device)
        """Running statistics of the masking map in each cell."""
        self.draws = torch.Generator(world.device).manual_seed(world.seed)

    @property
    def has_usual(self) -> bool:
        """Whether the mask is a map that is compared with its mean."""
        return self.config.mask != "none" and self.config.masks_by_mean

    def scaled(self, frames: UInt8[Tensor, "B px_h px_w"]) -> Float[Tensor, "B 1 px_h px_w"]:
        """Every pixel, normalised by its own statistics, so that a small new thing counts anywhere on the screen."""
        mean, std = self.moments.mean.float(), self.moments.std.clamp(min=LEAST_STD).float()
        return ((frames - mean) / std).clamp(-CLIP, CLIP)[:, None]

    def seen(
        self, frames: UInt8[Tensor, "B px_h px_w"], shown: Bool[Tensor, "B HW"] | None = None
    ) -> Float[Tensor, "B 1 px_h px_w"]:
        """What the networks see: all of the frames, or some cells."""
        x = self.scaled(frames)
        if shown is not None:
            x = x * over_the_frame(shown, self.cells, (x.shape[-2], x.shape[-1]))[:, None]
        return x

    def error(self, seen: Float[Tensor, "B 1 px_h px_w"]) -> Float[Tensor, "B"]:
        return (self.predictor(seen) - self.target(seen)).square().mean(-1)

    def losses(self, weight: Float[Tensor, "B"], seen: Float[Tensor, "B 1 px_h px_w"]) -> dict[str, Float[Tensor, ""]]:
        loss = weighted_mean(self.error(seen), weight)
        return {"total": loss, "loss": loss}

    def shown(self, recorded: Recorded) -> Bool[Tensor, "T N HW"] | None:
        """The mask of the frames that the transitions lead to: cells in which the map is above its mean there, or
        pixels that have moved."""
        if self.config.mask == "none":
            return None
        if not self.config.masks_by_mean:
            return recorded.fields[self.config.mask][1:] >= LEAST_MOTION
        return recorded.fields[self.config.mask][1:] > self.usual.mean.float()

    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]:
        """The prediction error of the frame that each transition leads to."""
        frames, shown = recorded.frames[1:].flatten(0, 1), self.shown(recorded)
        cells = itertools.repeat(None) if shown is None else shown.flatten(0, 1).split(PART)
        with torch.no_grad():
            errors = torch.cat([self.error(self.seen(*some)) for some in zip(frames.split(PART), cells, strict=False)])
        # Before the first statistics all pixels are clipped: their errors mean nothing.
        return errors.view(recorded.actions.shape) * (self.moments.n > 0)

    def update(self, recorded: Recorded) -> dict[str, Tensor]:
        """Update the statistics with the frames just rewarded, then train the predictor on them."""
        frames = recorded.frames[1:][recorded.real]  # (M, px_h, px_w)
        shown = self.shown(recorded)
        cells = None if shown is None else shown[recorded.real]  # (M, HW)
        for some in frames.split(OBSERVED_AT_ONCE):
            self.moments = self.moments.update(some)
        config, steps = self.config, []
        if self.has_usual:
            self.usual = self.usual.update(recorded.fields[config.mask][1:][recorded.real])
        rows = most_rows(recorded.actions.numel(), self.fraction, config.minibatches)
        novelty: dict[str, Tensor] = {}
        for index in minibatches(len(frames), self.fraction, config.minibatches, config.epochs, self.draws):
            seen = self.seen(frames[index], None if cells is None else cells[index])
            if cells is not None and not novelty:
                novelty = self.novelty(frames[index], cells[index])
            steps.append(self.learner.step((seen,), rows))
        metrics = means_of(steps) | novelty | {"pixel_std": self.moments.std.mean()}
        return metrics if cells is None or not len(cells) else metrics | {"shown": cells.float().mean()}

    @torch.no_grad()
    def novelty(self, frames: UInt8[Tensor, "B px_h px_w"], shown: Bool[Tensor, "B HW"]) -> dict[str, Tensor]:
        """Mean error of what the mask shows, which is the reward, and of what it hides, which no reward is made of."""
        sides = {"novelty_inside": shown, "novelty_outside": ~shown}
        return {name: self.error(self.seen(frames, cells)).mean() for name, cells in sides.items()}

    def state_dict(self) -> dict[str, Tensor]:
        moments = {f"moments.{name}": tensor.clone() for name, tensor in self.moments._asdict().items()}
        if self.has_usual:
            moments |= {f"usual.{name}": tensor.clone() for name, tensor in self.usual._asdict().items()}
        return self.learner.state_dict() | moments | {"draws": self.draws.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.learner.load_state_dict(state)
        self.moments = Moments(**{name: x.to(self.device) for name, x in part(state, "moments").items()})
        if usual := part(state, "usual"):
            self.usual = Moments(**{name: x.to(self.device) for name, x in usual.items()})
        set_rng_state(self.draws, state["draws"])


def over_the_frame(
    shown: Bool[Tensor, "B HW"], cells: tuple[int, int], size: tuple[int, int]
) -> Bool[Tensor, "B px_h px_w"]:
    (H, W), (px_h, px_w) = cells, size
    return shown.view(-1, H, 1, W, 1).expand(-1, H, px_h // H, W, px_w // W).reshape(-1, px_h, px_w)


def build(config: RndConfig, world: World) -> list[RewardTerm]:
    return [RewardTerm(config.stream(config.name, world.episodic), RND(config, world))]
