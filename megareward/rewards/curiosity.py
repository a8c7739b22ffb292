"""Curiosity (Burda et al. 2018a): the reward is the error of predicting what the action leads to.

A frame becomes features; a model of the dynamics predicts the features of the next frame from those of this one and the
action; its squared error is the reward. The numbers [cur-1] ... are the deviations in docs/methods.md.
"""

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn.functional import cross_entropy, leaky_relu

from megareward.nets import orthogonal
from megareward.rewards.interface import RewardTerm
from megareward.rewards.networks import (
    SLOPE,
    Learner,
    code_size,
    encoder,
    in_parts,
    means_of,
    minibatches,
    most_rows,
)
from megareward.rewards.settings import CuriosityConfig
from megareward.rng import set_rng_state
from megareward.rollout import Recorded
from megareward.state import part
from megareward.statistics.normaliser import Normaliser
from megareward.statistics.weighted import weighted_mean
from megareward.types import Float, Int, Tensor, UInt8
from megareward.world import World

BLOCKS = 4
"""Residual blocks of the dynamics (Burda et al.)."""


class Dynamics(nn.Module):
    """Features and action -> features of the next frame. Every layer sees the action again."""

    def __init__(self, F: int, n_actions: int) -> None:
        super().__init__()
        layers = [nn.Linear(F + n_actions, F) for _ in range(2 * BLOCKS + 2)]
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.enter, *inner, self.leave = layers
        self.inner = nn.ModuleList(inner)
        self.register_buffer("one_hot", torch.eye(n_actions), persistent=False)

    def forward(self, features: Float[Tensor, "B F"], actions: Int[Tensor, "B"]) -> Float[Tensor, "B F"]:
        action = self.one_hot[actions]  # type: ignore[index]  # (B, A)

        def with_action(x: Tensor) -> Tensor:
            return torch.cat([x, action], -1)  # (B, F + A)

        x = leaky_relu(self.enter(with_action(features)), SLOPE)
        for first, second in zip(self.inner[::2], self.inner[1::2], strict=True):
            x = x + second(with_action(leaky_relu(first(with_action(x)), SLOPE)))
        return self.leave(with_action(x))


class Curiosity:
    def __init__(self, config: CuriosityConfig, world: World) -> None:
        self.config, self.device = config, world.device
        self.learns_features = config.features == "inverse"
        F, A = code_size(world.frame_shape), world.n_actions
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(world.seed)
            self.features = encoder(world.frame_shape).requires_grad_(self.learns_features)
            self.dynamics = Dynamics(F, A)
            self.inverse = nn.Sequential(orthogonal(nn.Linear(2 * F, F)), nn.ReLU(), orthogonal(nn.Linear(F, A), 1.0))
        networks = nn.ModuleDict({"features": self.features, "dynamics": self.dynamics})
        if self.learns_features:
            networks["inverse"] = self.inverse
        self.learner = Learner(networks, config.learning_rate, world, self.losses)
        self.normaliser = Normaliser("pixel", world.frame_shape, config.normalise_frames, world.device)
        self.draws = torch.Generator(world.device).manual_seed(world.seed)

    def look(self, frames: UInt8[Tensor, "B px_h px_w"]) -> Float[Tensor, "B F"]:
        """Features of single frames [cur-1]."""
        return self.features(self.normaliser(frames)[:, None])

    def look_at_all(self, frames: UInt8[Tensor, "T_plus_1 N px_h px_w"]) -> Float[Tensor, "T_plus_1 N F"]:
        return in_parts(self.look, frames.flatten(0, 1)).unflatten(0, frames.shape[:2])

    @torch.no_grad()
    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]:
        features = self.look_at_all(recorded.frames)  # (T+1, N, F)
        foreseen = self.dynamics(features[:-1].flatten(0, 1), recorded.actions.flatten())  # (TN, F)
        errors = (foreseen - features[1:].flatten(0, 1)).square().mean(-1)
        return errors.view(recorded.actions.shape)

    def errors(
        self, now: Float[Tensor, "B F"], then: Float[Tensor, "B F"], actions: Int[Tensor, "B"]
    ) -> dict[str, Float[Tensor, "B"]]:
        """What is minimised. Features learn from the inverse task only: the dynamics loss would make them all equal."""
        foreseen = self.dynamics(now.detach(), actions)
        errors = {"dynamics_loss": (foreseen - then.detach()).square().mean(-1)}
        if self.learns_features:
            told = self.inverse(torch.cat([now, then], -1))
            errors["inverse_loss"] = cross_entropy(told, actions, reduction="none")
        return errors

    def losses(
        self, weight: Float[Tensor, "B"], now: Tensor, then: Tensor, actions: Int[Tensor, "B"]
    ) -> dict[str, Float[Tensor, ""]]:
        """`now` and `then` are frames where features learn, and features otherwise."""
        if self.learns_features:
            now, then = self.look(now), self.look(then)  # (B, F) each
        errors = self.errors(now, then, actions)
        losses = {name: weighted_mean(error, weight) for name, error in errors.items()}
        copied = weighted_mean((then - now).detach().square().mean(-1), weight)
        return losses | {"total": torch.stack(list(losses.values())).sum(), "copy_loss": copied}

    def update(self, recorded: Recorded) -> dict[str, Tensor]:
        config, frames = self.config, recorded.frames
        if self.normaliser.n_seen < config.normalise_frames:
            self.normaliser.observe(frames[1:][recorded.real])
        seen = frames if self.learns_features else self.look_at_all(frames)  # features once for all passes
        t, n = recorded.real.nonzero().unbind(1)  # (M,) each
        rows = most_rows(recorded.actions.numel(), config.update_fraction, config.minibatches)
        steps = []
        for pick in minibatches(len(t), config.update_fraction, config.minibatches, config.epochs, self.draws):
            at, after = (t[pick], n[pick]), (t[pick] + 1, n[pick])
            steps.append(self.learner.step((seen[at], seen[after], recorded.actions[at]), rows))
        return means_of(steps)

    def state_dict(self) -> dict[str, Tensor]:
        scaling = {f"normaliser.{name}": tensor.clone() for name, tensor in self.normaliser.state_dict().items()}
        return self.learner.state_dict() | scaling | {"draws": self.draws.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.learner.load_state_dict(state)
        self.normaliser.load_state_dict(part(state, "normaliser"))
        set_rng_state(self.draws, state["draws"])


def build(config: CuriosityConfig, world: World) -> list[RewardTerm]:
    return [RewardTerm(config.stream("curiosity", world.episodic), Curiosity(config, world))]
