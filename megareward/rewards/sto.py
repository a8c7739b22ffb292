"""Stochastic skills (SNN4HRL, Florensa et al. 2017): a code is rewarded if the frames it leads to reveal it.

The policy sees a code, drawn uniformly and held for a while (`observers.skills`). The reward is the information that a
frame has about the code: how much likelier the code is, now that the frame is seen. Its mean is a lower bound of the
mutual information between code and frame. The numbers [S1] ... are the deviations in docs/methods.md.
"""

import dataclasses
import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import nn

from megareward.nets import orthogonal
from megareward.rewards.count import COLUMNS, LEVELS, MULTIPLIER, ROWS, area_weights
from megareward.rewards.interface import RewardTerm, Stateless
from megareward.rewards.networks import SLOPE, Learner, code_size, encoder, in_parts, means_of, minibatches, most_rows
from megareward.rewards.settings import StoConfig
from megareward.rng import set_rng_state
from megareward.rollout import Recorded
from megareward.statistics.weighted import weighted_mean
from megareward.types import Float, Int, Tensor, UInt8
from megareward.world import World

BUCKET_BITS = 16
"""Counts by picture go into 2^16 buckets; a rollout has some thousand pictures."""


def skills_of(recorded: Recorded) -> Int[Tensor, "T N"]:
    """The code with which the agent acted in each transition."""
    return recorded.fields["skill"][:-1]


class Discriminator:
    """log p(code | frame) by a network that learns to predict the code."""

    def __init__(self, config: StoConfig, world: World) -> None:
        self.config, self.device = config, world.device
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(world.seed)
            head = orthogonal(nn.Linear(code_size(world.frame_shape), config.n_skills), gain=0.01)
            self.network = nn.Sequential(encoder(world.frame_shape), nn.LeakyReLU(SLOPE), head)
        self.learner = Learner(self.network, config.learning_rate, world, self.losses)
        self.draws = torch.Generator(world.device).manual_seed(world.seed)

    def logits(self, frames: UInt8[Tensor, "B px_h px_w"]) -> Float[Tensor, "B K"]:
        return self.network(frames[:, None] / 255.0)

    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]:
        """log p(code | frame it leads to) - log p(code): 0 where the frame carries no information, at most log K."""
        logits = in_parts(self.logits, recorded.frames[1:].flatten(0, 1))  # (TN, K)
        own = logits.log_softmax(-1).gather(1, skills_of(recorded).reshape(-1, 1))
        return own.view(recorded.actions.shape) + math.log(self.config.n_skills)

    def update(self, recorded: Recorded) -> dict[str, Tensor]:
        """Learn to predict the codes of the real transitions."""
        frames, skills = recorded.frames[1:][recorded.real], skills_of(recorded)[recorded.real]
        config, steps = self.config, []
        rows = most_rows(recorded.actions.numel(), 1.0, config.minibatches)
        for index in minibatches(len(frames), 1.0, config.minibatches, config.epochs, self.draws):
            steps.append(self.learner.step((frames[index], skills[index]), rows))
        return means_of(steps)

    def losses(
        self, weight: Float[Tensor, "B"], frames: UInt8[Tensor, "B px_h px_w"], skills: Int[Tensor, "B"]
    ) -> dict[str, Float[Tensor, ""]]:
        logits = self.logits(frames)
        loss = weighted_mean(F.cross_entropy(logits, skills, reduction="none"), weight)
        accuracy = weighted_mean((logits.argmax(-1) == skills).float(), weight)
        return {"total": loss, "loss": loss, "accuracy": accuracy}

    def state_dict(self) -> dict[str, Tensor]:
        return self.learner.state_dict() | {"draws": self.draws.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.learner.load_state_dict(state)
        set_rng_state(self.draws, state["draws"])


class Counts(Stateless):
    """p(code | frame) from the rollout itself: of all visits to such a frame, how many were by this code [S4].

    Frames are the same where their 8 x 11 patches have the same of 8 grey levels.
    """

    def __init__(self, config: StoConfig, world: World) -> None:
        self.n_skills = config.n_skills
        px_h, px_w = world.frame_shape
        self.over_rows = area_weights(ROWS, px_h).to(world.device)
        self.over_columns = area_weights(COLUMNS, px_w).to(world.device)
        random = torch.Generator().manual_seed(world.seed)
        self.factors = torch.randint(-(2**62), 2**62, (ROWS * COLUMNS,), generator=random).to(world.device)

    def buckets(self, frames: UInt8[Tensor, "B px_h px_w"]) -> Int[Tensor, "B"]:
        """A hash of the patches' levels; two pictures may share one, rarely."""
        patches = self.over_rows @ frames.float() @ self.over_columns.T  # (B, 8, 11)
        levels = patches.round().long() // (256 // LEVELS)
        spread = (levels.flatten(1) * self.factors).sum(-1) * MULTIPLIER  # modulo 2^64
        return (spread >> (64 - BUCKET_BITS)) & (2**BUCKET_BITS - 1)

    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]:
        """log((n_code + 1) / (n + K)) - log(1 / K), over the real transitions of the rollout."""
        K, skills = self.n_skills, skills_of(recorded).flatten()
        buckets = in_parts(self.buckets, recorded.frames[1:].flatten(0, 1))  # (TN,)
        counts = torch.zeros(2**BUCKET_BITS * K, device=buckets.device)
        counts.index_add_(0, buckets * K + skills, recorded.real.flatten().float())
        here = counts.view(-1, K)[buckets]  # (TN, K) visits of each code to where each transition leads
        own = here.gather(1, skills[:, None])[:, 0]
        return ((own + 1) / (here.sum(-1) + K)).log().view(recorded.actions.shape) + math.log(K)


KINDS: dict[str, type[Discriminator] | type[Counts]] = {"discriminator": Discriminator, "counts": Counts}


def build(config: StoConfig, world: World) -> list[RewardTerm]:
    """The return of a code does not include later codes: it ends where the next one is drawn [S3]."""
    stream = dataclasses.replace(config.stream("sto", world.episodic), cut_at="skill_drawn")
    return [RewardTerm(stream, KINDS[config.information](config, world))]
