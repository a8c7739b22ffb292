"""A method for tests only: it never sees the score, yet it learns. Without it the flip test would have little to bite.

It rewards change on the screen, in units of the mean change so far, so it also has a state to save.
"""

import torch

from megareward.reward_stream import RewardStream
from megareward.rewards import Method
from megareward.rewards.interface import RewardTerm
from megareward.rewards.settings import NoSettings
from megareward.rollout import Recorded
from megareward.types import Float, Tensor
from megareward.world import World


class FrameChange:
    def __init__(self, world: World) -> None:
        self.mean = torch.ones((), device=world.device)

    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]:
        frames = recorded.frames.float()  # (T+1, N, px_h, px_w)
        return (frames[1:] - frames[:-1]).abs().mean(dim=(2, 3)) / self.mean  # (T, N)

    def update(self, recorded: Recorded) -> dict[str, Tensor]:
        change = self.compute(recorded) * self.mean
        mean = (change * recorded.real).sum() / recorded.real.sum().clamp(min=1)
        self.mean = 0.5 * self.mean + 0.5 * mean
        return {"mean": self.mean}

    def state_dict(self) -> dict[str, Tensor]:
        return {"mean": self.mean}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.mean = state["mean"].to(self.mean.device)


def build(config: NoSettings, world: World) -> list[RewardTerm]:
    return [RewardTerm(RewardStream("frame-change", episodic=False, normalise=True), FrameChange(world))]


METHOD = Method("frame-change", "Change on the screen, for tests.", NoSettings, __name__, uses_score=False)
