"""C: the original controller of a World Model, one linear layer from [z, h] to the actions, found by CMA-ES.

Every candidate plays games of its own, all of them side by side, in the game itself (source: the same for one of its
two tasks; dreams for the other).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from megareward.envs.interface import BatchedEnv
from megareward.errors import RunError, UsageError
from megareward.types import Float, Int, Tensor
from megareward.world_model.learner import WorldModel

MakeEnv = Callable[[int], BatchedEnv]
"""Number of copies -> environments of the game."""


@dataclass(frozen=True)
class EvolutionConfig:
    """How CMA-ES searches for C."""

    generations: int = 15
    population: int = 32
    """Candidates of a generation (source: 64)."""
    games: int = 4
    """Environments that each candidate plays (source: 16)."""
    steps: int = 300
    """Decisions in each environment, over which the score is summed (source: one whole game)."""
    sigma: float = 0.3
    """Spread of the first candidates' weights around 0 (source: 0.1)."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("generations", "games", "steps"):
            if getattr(self, name) < 1:
                raise UsageError(f"--{name} is {getattr(self, name)}; use at least 1.")
        if self.population < 4:
            raise UsageError(f"--population is {self.population}; CMA-ES needs at least 4 candidates.")
        if not self.sigma > 0:
            raise UsageError(f"--sigma is {self.sigma}; it must be above 0.")


def n_weights(model: WorldModel) -> int:
    return (model.config.z + model.hidden + 1) * model.memory.n_actions


def decide(
    weights: Float[Tensor, "N weights"], z: Float[Tensor, "N z"], h: Float[Tensor, "N hidden"]
) -> Int[Tensor, "N"]:
    """The action with the highest output of each candidate."""
    seen = torch.cat([z, h, torch.ones_like(z[:, :1])], 1)
    return torch.einsum("nsa,ns->na", weights.view(len(seen), seen.shape[1], -1), seen).argmax(1)


@torch.no_grad()
def play(
    model: WorldModel, env: BatchedEnv, weights: Float[Tensor, "N weights"] | None, steps: int, seed: int
) -> Float[Tensor, "N"]:
    """The score of each environment in `steps` decisions, with weights of its own; None: random actions."""
    step, draws = env.reset(seed), torch.Generator(env.device).manual_seed(seed)
    h = c = torch.zeros(env.n_envs, model.hidden, device=model.device)
    score = torch.zeros(env.n_envs, device=env.device)
    for _ in range(steps):
        if weights is None:
            actions = torch.randint(env.n_actions, (env.n_envs,), generator=draws, device=env.device)
        else:
            h, c = (x.masked_fill(step.first.to(model.device)[:, None], 0.0) for x in (h, c))
            z, _ = model.codes(step.frames.to(model.device))
            actions = decide(weights, z, h)
            h, c = model.memory.advance(z, actions, (h, c))
        env.send(actions.to(env.device))
        step = env.recv()
        score += step.rewards
    return score


def evolve(
    model: WorldModel, make_env: MakeEnv, config: EvolutionConfig, tell: Callable[[int, float, float], None]
) -> Float[Tensor, "weights"]:
    """The mean of CMA-ES's final distribution. `tell` is called with the generation, its mean and its best score."""
    strategy = _cma().CMAEvolutionStrategy(
        n_weights(model) * [0.0], config.sigma, {"popsize": config.population, "seed": config.seed + 1, "verbose": -9}
    )
    env = make_env(config.population * config.games)
    for generation in range(config.generations):
        candidates = strategy.ask()
        weights = torch.tensor(np.array(candidates), dtype=torch.float32, device=model.device)
        # The same games for all candidates of a generation, others in the next.
        scores = play(model, env, weights.repeat_interleave(config.games, 0), config.steps, config.seed + generation)
        means = scores.view(config.population, config.games).mean(1).cpu()
        strategy.tell(candidates, (-means).tolist())
        tell(generation + 1, float(means.mean()), float(means.max()))
    env.close()
    return torch.tensor(strategy.result.xfavorite, dtype=torch.float32, device=model.device)


def _cma() -> Any:
    try:
        import cma
    except ImportError:
        raise RunError("CMA-ES needs the package cma; pip install 'megareward[cma]' brings it.") from None
    return cma
