"""The observer of motion: which pixels of each frame moved by themselves (MOREL's masks, joined into one).

It learns from the first frames of a run, whatever is played there, and is fixed afterwards.
"""

from collections.abc import Mapping

import torch

from megareward.objects.motion import MotionSegmentation, motion_loss
from megareward.observers.interface import Context, Observer, Seen
from megareward.rng import set_rng_state
from megareward.rollout import Field, Fields, Rollout
from megareward.state import State, joined, load_optimiser_state, optimiser_state, part
from megareward.types import Float, Tensor

MASKS = "masks"
LEAST_PIXELS = 2.0
"""If fewer pixels than this move on average, the camera explains all motion, and everything is shown instead (source: a
smaller mask is no object)."""
MEMORY = 0.9
"""Decay per rollout of the running mean of the masks' size."""
MAX_GRAD_NORM = 5.0
"""Source."""


class MaskObserver(Observer):
    """Row t of `masks` is how far pixels moved from frame t - 1 to frame t, in 255ths of a pixel, at most 255."""

    capturable = True

    def __init__(self, context: Context) -> None:
        world, self.config, self.learns = context.world, context.settings, context.learns
        px_h, px_w = world.frame_shape
        self.fields = (Field(MASKS, (px_h * px_w,), torch.uint8, picture=(px_h, px_w), scale=1 / 255),)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(world.seed)
            motion = self.config.motion
            network = MotionSegmentation(world.frame_shape, motion.n_masks, motion.channels, motion.detail)
        self.network = network.to(world.device)
        self.adam = torch.optim.Adam(self.network.parameters(), self.config.motion_learning_rate, fused=True)
        self.draws = torch.Generator(world.device).manual_seed(world.seed)
        self.size = torch.full((), LEAST_PIXELS, device=world.device)
        """Running mean of how many pixels move."""
        self.steps = 0
        """Decisions it has learnt from."""

    @torch.no_grad()
    def advance(self, seen: Seen) -> Fields:
        union = self.network(seen.stacks).union().masked_fill(self.size < LEAST_PIXELS, 1.0)
        return {MASKS: (255 * union).round().to(torch.uint8).flatten(1)}

    def learn(self, rollout: Rollout) -> dict[str, Tensor]:
        """Train for a few passes over the pairs of frames, until the network is fixed."""
        metrics = {}
        if self.learns and self.steps < self.config.motion_steps:
            loss, pixels = self.train(rollout)
            self.size.mul_(MEMORY).add_((1 - MEMORY) * pixels)
            self.steps += rollout.T * rollout.n_envs
            metrics["masks/loss"] = loss
        return metrics | {"masks/pixels": self.size.clone()}

    def train(self, rollout: Rollout) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Returns the means of the loss and of the number of moving pixels."""
        config, n, steps = self.config, rollout.T * rollout.n_envs, []
        regularisation = config.motion.weight(self.steps / config.motion_steps)
        for _ in range(config.motion_epochs):
            order = torch.randperm(n, generator=self.draws, device=rollout.device) + rollout.n_envs
            for index in order.split(config.motion_batch):
                stacks = rollout.stacks(index)
                motion = self.network(stacks)
                loss = motion_loss(motion, stacks, regularisation)
                self.adam.zero_grad(set_to_none=True)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.network.parameters(), MAX_GRAD_NORM)
                self.adam.step()
                steps.append(torch.stack([loss, motion.union().sum((1, 2)).mean()]).detach())
        loss, pixels = torch.stack(steps).mean(0)
        return loss, pixels

    def state_dict(self) -> State:
        own = {"size": self.size.clone(), "steps": torch.tensor(self.steps), "draws": self.draws.get_state()}
        return own | joined(network=self.network.state_dict(), adam=optimiser_state(self.adam))

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.network.load_state_dict(part(state, "network"))
        self.size.copy_(state["size"])
        if self.learns:
            load_optimiser_state(self.adam, part(state, "adam"))
            self.steps = int(state["steps"])
            set_rng_state(self.draws, state["draws"])


def build(context: Context) -> Observer:
    return MaskObserver(context)
