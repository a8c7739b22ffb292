"""Diverse skills (DEHRL, Song et al. 2019): a skill is rewarded for doing what no other skill would have done.

Codes are held for blocks of steps (`hierarchy.levels`). A predictor learns how each code changes the frame over a
block. The reward at the end of a block is the distance between the change that happened and the nearest of the
changes predicted for the other codes, minus the expected distance. The numbers [V1] ... are the deviations in
docs/methods.md.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import nn

from megareward.nets import TRUNKS, trunk_for
from megareward.rewards.interface import RewardTerm
from megareward.rewards.networks import SLOPE, Learner, code_size, encoder, means_of, minibatches
from megareward.rewards.settings import DivConfig
from megareward.rng import set_rng_state
from megareward.rollout import Recorded
from megareward.state import part
from megareward.statistics.moments import Moments
from megareward.statistics.weighted import weighted_mean
from megareward.types import Bool, Float, Int, Tensor, UInt8
from megareward.world import World


class LevelFields(NamedTuple):
    """The names of the recorded fields of one level's codes."""

    skill: str
    drawn: str
    """Whether the code was drawn at this frame."""
    start: str
    """The frame at which it was drawn."""


def level_fields(level: int) -> LevelFields:
    """Level 0 is the one that the policy sees."""
    skill = f"skill_{level}" if level else "skill"
    return LevelFields(skill, f"{skill}_drawn", f"{skill}_start")


class Blocks(NamedTuple):
    """The blocks that end in a rollout, at most E in each environment."""

    start: UInt8[Tensor, "E N px_h px_w"]
    end: UInt8[Tensor, "E N px_h px_w"]
    skill: Int[Tensor, "E N"]
    time: Int[Tensor, "E N"]
    """The transition that ends the block."""
    valid: Bool[Tensor, "E N"]
    """False where an environment had fewer."""


def blocks_of(recorded: Recorded, level: int, span: int) -> Blocks:
    """Whole blocks of `span` steps; those that an end of the game cut short or coincided with are left out.

    The host does not know their number, but an environment has at most T / span of them, rounded up: with that many
    rows, the host need not wait for the device.
    """
    names, (T, N) = level_fields(level), recorded.actions.shape
    ended = recorded.fields[names.drawn][1:] & recorded.real & ~(recorded.terminated | recorded.truncated)[1:]
    valid, time = ended.byte().sort(dim=0, descending=True, stable=True)
    valid, time = valid[: math.ceil(T / span)].bool(), time[: math.ceil(T / span)]
    n = torch.arange(N, device=time.device)
    start, skill = (recorded.fields[name][time, n] for name in (names.start, names.skill))
    return Blocks(start, recorded.frames[time + 1, n], skill, time, valid)


class Predictor(nn.Module):
    """A frame and a code -> the change of the frame over a block, in [-1, 1], and the expected distance (`bounty`).

    The frame's features times those of the code, then the trunk's convolutions, transposed.
    """

    def __init__(self, frame_shape: tuple[int, int], n_skills: int) -> None:
        super().__init__()
        self.frame_shape = frame_shape
        units, (convolutions, _) = code_size(frame_shape), TRUNKS[trunk_for(frame_shape)]
        self.encoder = nn.Sequential(encoder(frame_shape), nn.LeakyReLU(SLOPE))
        self.of_skill = nn.Embedding(n_skills, units)
        self.bounty = nn.Linear(units, 1)
        features, (height, width) = [1, *(number for number, _, _ in convolutions)], frame_shape
        layers: list[nn.Module] = []
        for i, (_, kernel, stride) in enumerate(convolutions):
            height, width = (math.ceil((size - kernel) / stride) + 1 for size in (height, width))
            layers = [nn.ConvTranspose2d(features[i + 1], features[i], kernel, stride), *layers]
            layers = [nn.LeakyReLU(SLOPE), *layers]
        self.decoder = nn.Sequential(*layers, nn.Tanh())
        self.seed_shape = (features[-1], height, width)
        self.spread = nn.Linear(units, math.prod(self.seed_shape))

    def forward(
        self, frames: UInt8[Tensor, "B px_h px_w"], skills: Int[Tensor, "B"]
    ) -> tuple[Float[Tensor, "B px_h px_w"], Float[Tensor, "B"]]:
        return self.foresee(self.look(frames), skills)

    def look(self, frames: UInt8[Tensor, "B px_h px_w"]) -> Float[Tensor, "B units"]:
        return self.encoder(frames[:, None] / 255.0)

    def foresee(
        self, features: Float[Tensor, "B units"], skills: Int[Tensor, "B"]
    ) -> tuple[Float[Tensor, "B px_h px_w"], Float[Tensor, "B"]]:
        code = features * self.of_skill(skills)  # (B, units)
        change = self.decoder(self.spread(code).view(-1, *self.seed_shape))[:, 0]  # as large as the frame, or larger
        px_h, px_w = self.frame_shape
        return change[:, :px_h, :px_w], self.bounty(code)[:, 0]


def mass_centre(change: Float[Tensor, "B px_h px_w"]) -> Float[Tensor, "B 2"]:
    """Centre of mass, in pixels, of the change as a picture: black where it got darkest, white where brightest."""
    mass = (change + 1) / 2
    rows, columns = (torch.arange(size, dtype=mass.dtype, device=mass.device) for size in mass.shape[1:])
    moments = torch.stack([mass.sum(2) @ rows, mass.sum(1) @ columns], -1)  # (B, 2)
    return moments / mass.sum((1, 2)).clamp(min=1e-6)[:, None]


def distance(one: Float[Tensor, "B px_h px_w"], other: Float[Tensor, "B px_h px_w"], kind: str) -> Float[Tensor, "B"]:
    if kind == "mass-centre":
        return (mass_centre(one) - mass_centre(other)).norm(dim=-1)
    return (one - other).square().mean((1, 2)).sqrt()


class Diversity:
    """The reward of one level's codes, and the predictor of what the other codes would have done."""

    def __init__(self, config: DivConfig, world: World, level: int = 0) -> None:
        self.config, self.device, self.level = config, world.device, level
        self.span = config.spans[level]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(world.seed + level)
            self.predictor = Predictor(world.frame_shape, config.n_skills)
        self.learner = Learner(self.predictor, config.learning_rate, world, self.losses)
        self.moments = Moments.empty((), world.device)
        """Of the distances: the predictor learns them in units of their std [V5]."""
        self.draws = torch.Generator(world.device).manual_seed(world.seed + level)

    def distances(self, blocks: Blocks) -> tuple[Float[Tensor, "E N"], Float[Tensor, "E N"]]:
        """Distance of each block's change from the nearest one predicted for other codes; and the expected distance."""
        K, shape = self.config.n_skills, blocks.skill.shape
        start, end, own = blocks.start.flatten(0, 1), blocks.end.flatten(0, 1), blocks.skill.flatten()
        changed, features = change_of(start, end), self.predictor.look(start)
        nearest = torch.full_like(own, math.inf, dtype=torch.float32)
        expected = torch.zeros_like(nearest)
        for skill in range(K):
            skills = torch.full_like(own, skill)
            foreseen, bounty = self.predictor.foresee(features, skills)
            away = distance(changed, foreseen, self.config.distance)
            nearest = torch.where(own == skill, nearest, torch.minimum(nearest, away))
            expected = torch.where(own == skill, bounty, expected)
        return nearest.view(shape), expected.view(shape) * self.spread

    @property
    def spread(self) -> Float[Tensor, ""]:
        return self.moments.std.clamp(min=1e-8).float()

    @torch.no_grad()
    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]:
        """At the end of a block: its distance less the expected one. Elsewhere 0."""
        blocks = blocks_of(recorded, self.level, self.span)
        nearest, expected = self.distances(blocks)
        paid = torch.where(blocks.valid, nearest - expected, 0.0)
        rewards = torch.zeros(recorded.actions.shape, device=self.device)
        return rewards.scatter_add_(0, blocks.time, paid)

    def update(self, recorded: Recorded) -> dict[str, Tensor]:
        """Train the predictor on the changes and distances of the rollout's whole blocks."""
        blocks = blocks_of(recorded, self.level, self.span)
        with torch.no_grad():
            nearest, _ = self.distances(blocks)
        start, end, skills, bounty = (x[blocks.valid] for x in (blocks.start, blocks.end, blocks.skill, nearest))
        self.moments = self.moments.update(bounty)
        changed, bounty = change_of(start, end), bounty / self.spread
        parts, steps = math.ceil(len(skills) / self.config.batch), []
        for index in minibatches(len(skills), 1.0, max(parts, 1), self.config.epochs, self.draws):
            batch = (start[index], skills[index], changed[index], bounty[index])
            steps.append(self.learner.step(batch, self.config.batch))
        return means_of(steps) | {"distance": (nearest * blocks.valid).sum() / blocks.valid.sum().clamp(min=1)}

    def losses(
        self,
        weight: Float[Tensor, "B"],
        start: UInt8[Tensor, "B px_h px_w"],
        skills: Int[Tensor, "B"],
        changed: Float[Tensor, "B px_h px_w"],
        bounty: Float[Tensor, "B"],
    ) -> dict[str, Float[Tensor, ""]]:
        foreseen, expected = self.predictor(start, skills)
        errors = torch.stack([(foreseen - changed).square().mean((1, 2)), changed.square().mean((1, 2))])
        loss, still = 255.0 * weighted_mean(errors.T, weight)  # in grey levels, over 255, as in the source
        off = weighted_mean((expected - bounty).square(), weight)
        return {"total": loss + off, "loss": loss, "copy_loss": still, "bounty_loss": off}

    def state_dict(self) -> dict[str, Tensor]:
        moments = {f"moments.{name}": tensor.clone() for name, tensor in self.moments._asdict().items()}
        return self.learner.state_dict() | moments | {"draws": self.draws.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.learner.load_state_dict(state)
        self.moments = Moments(**{name: x.to(self.device) for name, x in part(state, "moments").items()})
        set_rng_state(self.draws, state["draws"])


def change_of(start: UInt8[Tensor, "B px_h px_w"], end: UInt8[Tensor, "B px_h px_w"]) -> Float[Tensor, "B px_h px_w"]:
    """The change of each pixel, in [-1, 1]."""
    return (end.float() - start.float()) / 255.0


def build(config: DivConfig, world: World) -> list[RewardTerm]:
    """The reward of level 0, the agent. The observer that picks the codes rewards the levels above it."""
    stream = dataclasses.replace(config.stream("div", world.episodic), cut_at=level_fields(0).drawn)
    return [RewardTerm(stream, Diversity(config, world))]
