"""Control models on mini games: train them by random play, watch them, and know the truth from cloned states."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from megareward.control.config import ControlConfig, mini
from megareward.control.learning.learner import ControlLearner
from megareward.control.models import ControlModels
from megareward.envs.mini import mini_config
from megareward.envs.mini.base import MiniGame
from megareward.envs.mini.games import make_mini
from megareward.observers.tracker import Control, ControlTracker
from megareward.stacking import pushed

SETTINGS = replace(mini(ControlConfig()), fraction=1.0)
"""The settings of mini games; every transition is used twice, so that minutes are enough."""

Policy = Callable[[MiniGame, torch.Generator], Tensor]


def random_play(env: MiniGame, generator: torch.Generator) -> Tensor:
    return torch.randint(env.n_actions, (env.n_envs,), generator=generator)


def follow_the_ball(env: MiniGame, generator: torch.Generator) -> Tensor:
    """mini-pong: keeps the paddle at the ball three times out of four, so that they do meet."""
    gap = (env.game.ball_y + 1) - (env.game.paddle_y + 3)
    wanted = torch.where(gap > 1, 2, torch.where(gap < -1, 1, 0))
    return torch.where(torch.rand(env.n_envs, generator=generator) < 0.25, random_play(env, generator), wanted)


def learn(game: str, n_updates: int, seed: int = 0, n_envs: int = 64, T: int = 16, **options: object) -> ControlModels:
    """Models trained on `n_updates` rollouts of random play."""
    env = make_mini(game, n_envs, mini_config(game, **options))
    models = ControlModels(SETTINGS, env.frame_shape, env.n_actions, seed=seed)
    learner, generator = ControlLearner(models, seed), torch.Generator().manual_seed(seed)
    step = env.reset(seed)
    frames, first = [step.frames], [step.first]
    for _ in range(n_updates):
        actions = []
        for _ in range(T):
            actions.append(random_play(env, generator))
            step = env.step(actions[-1])
            frames.append(step.frames)
            first.append(step.first)
        learner.update(torch.stack(frames), torch.stack(actions), torch.stack(first))
        frames, first = frames[-SETTINGS.rtm.stack :], first[-SETTINGS.rtm.stack :]
    return models


@dataclass
class Moment:
    """One step of N environments as the tracker saw it, with the truth beside it."""

    control: Control
    real: Tensor
    """(N,) not the first frame of an episode."""
    frames: Tensor
    before: dict[str, Tensor]
    """(N, HW) pixels of each object in each cell, in the frame before."""
    now: dict[str, Tensor]
    game_before: tuple[Tensor, ...]
    game: tuple[Tensor, ...]
    controlled: Tensor | None
    """(N, HW) cells that another action would have changed at once."""


def watch(
    models: ControlModels, game: str, steps: int, policy: Policy, n_envs: int = 48, seed: int = 3, truth: bool = False,
    **options: object,
) -> Iterator[Moment]:  # fmt: skip
    env = make_mini(game, n_envs, mini_config(game, **options))
    tracker, generator = ControlTracker(models, n_envs), torch.Generator().manual_seed(seed)
    step = env.reset(seed)
    stack = step.frames[:, None].repeat(1, SETTINGS.rtm.stack, 1, 1)
    tracker.step(stack, torch.zeros(n_envs, dtype=torch.long), step.first)
    now = cells_of_objects(models, env)
    for _ in range(steps):
        actions, before, game_before = policy(env, generator), now, env.game
        controlled = directly_controlled(models, env, actions) if truth else None
        step = env.step(actions)
        stack = pushed(stack, step.frames, step.first)
        control, now = tracker.step(stack, actions, step.first, with_relation=True), cells_of_objects(models, env)
        yield Moment(control, ~step.first, step.frames, before, now, game_before, env.game, controlled)


def cells_of_objects(models: ControlModels, env: MiniGame) -> dict[str, Tensor]:
    return {name: models.grid.to_cells(mask).flatten(2).sum(-1) for name, mask in env.object_masks().items()}


def directly_controlled(models: ControlModels, env: MiniGame, actions: Tensor) -> Tensor:
    """Clone the state, take every action: the cells in which some other action would have shown something else."""
    everyone = torch.arange(env.n_envs)
    outcomes = torch.stack(
        [env.select(everyone).step(torch.full_like(everyone, a)).frames for a in range(env.n_actions)]
    )  # (A, N, px_h, px_w)
    differs = (outcomes != outcomes[actions, everyone]).any(0)
    return models.grid.to_cells(differs).flatten(2).any(-1)


def auroc(high: Tensor, low: Tensor) -> float:
    """The chance that a value of `high` exceeds one of `low`."""
    return ((high[:, None] > low).double() + 0.5 * (high[:, None] == low).double()).mean().item()
