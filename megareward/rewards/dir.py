"""Dir: direct control only, the paper's ablation of mega-reward without latent control.

Read literally it is Eq. 11 on the direct map, sum over the cells of direct_{t+1} - direct_t. But `direct` is an
attention map and sums to 1 at every frame, so that sum is 1 - 1 = 0 whatever the agent does: the literal form carries
no information, and a nonlinearity per cell is needed [dir-1]:

  positive   sum over the cells of relu(direct_{t+1} - direct_t): how much of the attention has moved, from 0 to 1
  count      1 / sqrt(visits of the most attended cell), as in Choi et al. 2019: seldom controlled places give more
"""

from collections.abc import Mapping

import torch

from megareward.rewards.interface import RewardTerm, Stateless
from megareward.rewards.settings import DirConfig
from megareward.rollout import Recorded
from megareward.types import Float, Int, Tensor
from megareward.world import World


class Moved(Stateless):
    """The form `positive`."""

    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]:
        """0 for the transition out of an episode's first frame: there all cells of `direct` are 0, so all of the next
        map would count as gain: a point for every death."""
        direct = recorded.fields["direct"]  # (T+1, N, HW)
        gain = (direct[1:] - direct[:-1]).clamp(min=0).sum(-1)  # (T, N)
        return gain.masked_fill(recorded.first[:-1], 0)


class Visited:
    """The form `count`. All environments share the counts."""

    def __init__(self, world: World) -> None:
        px_h, px_w = world.frame_shape
        self.visits = torch.zeros(px_h * px_w, dtype=torch.int64, device=world.device)  # no grid has more cells

    def places(self, recorded: Recorded) -> Int[Tensor, "T N"]:
        """The most attended cell of the frame that each transition leads to."""
        return recorded.fields["direct"][1:].argmax(-1)

    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]:
        """1 / sqrt(visits), this one included: 1 for a new place."""
        return (self.visits[self.places(recorded)] + 1).float().rsqrt()

    def update(self, recorded: Recorded) -> dict[str, Tensor]:
        places, real = self.places(recorded).flatten(), recorded.real.flatten()
        self.visits.index_add_(0, places, real.to(self.visits.dtype))  # resets are not counted
        return {"cells": (self.visits > 0).sum(), "busiest": self.visits.max() / self.visits.sum().clamp(min=1)}

    def state_dict(self) -> dict[str, Tensor]:
        return {"visits": self.visits.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.visits.copy_(state["visits"])


def build(config: DirConfig, world: World) -> list[RewardTerm]:
    reward = Moved() if config.form == "positive" else Visited(world)
    return [RewardTerm(config.stream("dir", world.episodic), reward)]
