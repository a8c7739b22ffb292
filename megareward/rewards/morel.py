"""MOREL (Goel et al. 2018): the score, learnt by a policy whose trunk also explains what moves.

While actions are random, the policy's trunk is the encoder of a motion segmentation and learns nothing but that; so PPO
starts with a trunk that represents objects. From then on the segmentation's loss stands beside PPO's. The numbers
[morel-1] ... are the deviations in docs/objects.md.
"""

from typing import Any

import torch

from megareward.objects.motion import MotionHeads, motion_loss
from megareward.rewards.extrinsic import build
from megareward.rewards.settings import MorelConfig
from megareward.types import Float, Tensor
from megareward.world import World

__all__ = ["build", "build_auxiliary"]


class MotionLoss:
    """An auxiliary loss of PPO (`ppo.update.AuxiliaryLoss`): masks and translations from the policy's trunk."""

    def __init__(self, config: MorelConfig, world: World, units: int) -> None:
        """`units`: features that the policy's trunk returns."""
        self.config, motion = config, config.motion
        heads = MotionHeads(world.frame_shape, units, motion.n_masks, motion.channels, motion.detail)
        self.module = heads.to(world.device)
        # Only updated in place: a captured gradient step reads them.
        self.regularisation, self.weight = torch.zeros(2, device=world.device).unbind()

    def begin(self, left: float) -> None:
        """The curriculum: the regulariser's weight grows, that of the whole loss falls."""
        self.regularisation.fill_(self.config.motion.weight(1 - left))
        self.weight.fill_(self.config.auxiliary * left)

    def __call__(self, policy: Any, seen: Any, index: Tensor) -> Float[Tensor, ""]:
        motion = self.module(policy.features(seen.stack, seen.channels), seen.stack)
        return self.weight * motion_loss(motion, seen.stack, self.regularisation)


def build_auxiliary(config: MorelConfig, world: World, policy: Any, rollout: Any) -> MotionLoss:
    return MotionLoss(config, world, policy.trunk[-2].out_features)
