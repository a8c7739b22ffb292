"""What judges control in a run, and how the policy is shown it."""

import torch

from megareward.control.models import ControlModels
from megareward.envs.interface import BatchedEnv
from megareward.observers.oracle import NothingToLearn, OracleTracker
from megareward.observers.tracker import ControlTracker
from megareward.training.config import TrainConfig
from megareward.types import Float, Tensor


def make_tracker(
    config: TrainConfig, env: BatchedEnv, device: torch.device, seed: int, n_groups: int = 1
) -> ControlTracker | OracleTracker:
    """What judges control: models that learn, or, where the config asks for this diagnosis, an oracle."""
    if config.uses_oracle:
        return OracleTracker(env, config.control)
    return ControlTracker(make_models(config, env, device, seed), env.n_envs, seed, n_groups)


def make_models(config: TrainConfig, env: BatchedEnv, device: torch.device, seed: int) -> ControlModels:
    return ControlModels(config.control, env.frame_shape, env.n_actions, device, seed)


def as_channel(g: Float[Tensor, "B HW"], models: ControlModels | NothingToLearn) -> Float[Tensor, "B 1 px_h px_w"]:
    """g painted over the frame, cell by cell; without clipping it is scaled to [0, 1] by its bound 1 / (1 - rho)."""
    grid, latent = models.grid, models.config.latent
    if not latent.clip:
        g = g * (1 - latent.rho)
    cells = g[..., None, None].expand(-1, -1, grid.cell_h, grid.cell_w)  # (B, HW, cell_h, cell_w)
    return grid.to_frames(cells)[:, None]
