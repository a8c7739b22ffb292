"""What observers, rewards and the agent may know of the games before they start."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class World:
    """N environments of one game, and where their learners live."""

    n_envs: int
    n_actions: int
    frame_shape: tuple[int, int]
    device: torch.device
    seed: int
    episodic: bool = True
    """The rule for death, the same for every method: whether returns end where the game does (`TrainConfig.episodic`).
    """
    cells: tuple[int, int] = (4, 4)
    """Rows and columns of the control maps, if there are any."""
    cuda_graphs: bool = False
    """Whether gradient steps of rewards and managers are captured."""
