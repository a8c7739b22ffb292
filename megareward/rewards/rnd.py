"""Random network distillation (Burda et al. 2018b): what has been seen often is predicted well, what is new is not.

A fixed random network, the target, gives every frame a code; a second network learns to predict that code from the
frames seen so far. The prediction error is the reward. The numbers [rnd-1] ... are the deviations in docs/methods.md.
"""

from collections.abc import Mapping

import torch
from torch import nn

from megareward.nets import orthogonal
from megareward.rewards.interface import RewardTerm
from megareward.rewards.networks import (
    Learner,
    code_size,
    encoder,
    in_parts,
    means_of,
    minibatches,
)
from megareward.rewards.settings import RndConfig
from megareward.rng import set_rng_state
from megareward.rollout import Recorded
from megareward.state import part
from megareward.statistics.moments import Moments
from megareward.types import Float, Tensor, UInt8
from megareward.world import World

CLIP = 5.0
"""Bound of a scaled pixel (Burda et al.)."""
LEAST_STD = 0.01
"""Grey levels. A pixel that never changed has no standard deviation; when it does change, it is new: clipped to +-5."""
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
        self.learner = Learner(networks, config.learning_rate, world.device)
        self.moments = Moments.empty(world.frame_shape, world.device)
        self.draws = torch.Generator(world.device).manual_seed(world.seed)

    def scaled(self, frames: UInt8[Tensor, "B px_h px_w"]) -> Float[Tensor, "B 1 px_h px_w"]:
        """Every pixel in units of its own history, so that a small new thing counts in any corner of the screen."""
        mean, std = self.moments.mean.float(), self.moments.std.clamp(min=LEAST_STD).float()
        return ((frames - mean) / std).clamp(-CLIP, CLIP)[:, None]

    def error(self, frames: UInt8[Tensor, "B px_h px_w"]) -> Float[Tensor, "B"]:
        x = self.scaled(frames)
        return (self.predictor(x) - self.target(x)).square().mean(-1)

    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]:
        """A transition is as new as the frame it leads to."""
        errors = in_parts(self.error, recorded.frames[1:].flatten(0, 1)).view(recorded.actions.shape)
        return errors * (self.moments.n > 0)  # before the first statistics all pixels are clipped: that says nothing

    def update(self, recorded: Recorded) -> dict[str, Tensor]:
        """The statistics take in the frames that were just rewarded; then the predictor learns them."""
        frames = recorded.frames[1:][recorded.real]  # (M, px_h, px_w)
        for some in frames.split(OBSERVED_AT_ONCE):
            self.moments = self.moments.update(some)
        config, steps = self.config, []
        for index in minibatches(len(frames), self.fraction, config.minibatches, config.epochs, self.draws):
            loss = self.error(frames[index]).mean()
            self.learner.step(loss)
            steps.append({"loss": loss})
        return means_of(steps) | {"pixel_std": self.moments.std.mean()}

    def state_dict(self) -> dict[str, Tensor]:
        moments = {f"moments.{name}": tensor.clone() for name, tensor in self.moments._asdict().items()}
        return self.learner.state_dict() | moments | {"draws": self.draws.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.learner.load_state_dict(state)
        self.moments = Moments(**{name: x.to(self.device) for name, x in part(state, "moments").items()})
        set_rng_state(self.draws, state["draws"])


def build(config: RndConfig, world: World) -> list[RewardTerm]:
    return [RewardTerm(config.stream("rnd", world.episodic), RND(config, world))]
