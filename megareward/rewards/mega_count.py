"""Mega-reward's computation replaced by a count bonus on g: the paper's second ablation, and the reward of the
released code's own command (`mega` with --reward.bonus count).

As in the released code: g is scaled to [0, 1] over its cells, each cell gets one of four levels, and the bonus of a
pattern of levels is 1 / sqrt(how often it was seen). Patterns are counted in a fixed number of buckets; two may share
one.
"""

from collections.abc import Mapping

import torch

from megareward.rewards.interface import RewardTerm
from megareward.rewards.settings import MegaConfig
from megareward.rollout import Recorded
from megareward.state import State, packed, unpacked_into
from megareward.types import Float, Int, Tensor
from megareward.world import World

LEVELS = 4
BUCKETS = 2**20


class CountedMaps:
    """All environments share the counts."""

    def __init__(self, world: World) -> None:
        self.visits = torch.zeros(BUCKETS, dtype=torch.int64, device=world.device)

    def buckets(self, g: Float[Tensor, "T N HW"]) -> Int[Tensor, "T N"]:
        low, high = g.amin(-1, keepdim=True), g.amax(-1, keepdim=True)
        scaled = (g - low) / (high - low).clamp(min=1e-8)
        levels = (scaled * LEVELS).long().clamp(max=LEVELS - 1)  # (T, N, HW)
        code = torch.zeros_like(levels[..., 0])
        for cell in levels.unbind(-1):  # a polynomial hash; int64 wraps around
            code = code * 6364136223846793005 + cell + 1442695040888963407
        return (code >> 33) % BUCKETS

    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]:
        """1 / sqrt(visits), this one included: 1 for a new pattern."""
        return (self.visits[self.buckets(recorded.fields["g"][1:])] + 1).float().rsqrt()

    def update(self, recorded: Recorded) -> dict[str, Tensor]:
        buckets, real = self.buckets(recorded.fields["g"][1:]).flatten(), recorded.real.flatten()
        self.visits.index_add_(0, buckets, real.to(self.visits.dtype))  # resets are not counted
        return {"patterns": (self.visits > 0).sum()}

    def state_dict(self) -> State:
        return packed(self.visits)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        unpacked_into(self.visits, {"counts": state["visits"]} if "visits" in state else state)


def build(config: MegaConfig, world: World) -> list[RewardTerm]:
    return [RewardTerm(config.stream("mega-count", world.episodic), CountedMaps(world))]
