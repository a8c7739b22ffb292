"""Any of our batches of games as a Gymnasium vector environment, for training code that expects one."""

from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from megareward.envs.interface import BatchedEnv
from megareward.errors import UsageError

Array = NDArray[Any]


class GymnasiumVector(VectorEnv[Array, Array, Array]):
    """Numpy in and out; frames are (px_h, px_w), uint8. After an episode's last frame, the next step starts a new one.

    Gymnasium knows the ends of whole episodes only, so a lost life that does not end the game is not reported.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012  Gymnasium's own pattern

    def __init__(self, batch: BatchedEnv) -> None:
        self.batch = batch
        self.num_envs = batch.n_envs
        self.single_observation_space = Box(0, 255, batch.frame_shape, np.uint8)
        self.single_action_space = Discrete(batch.n_actions)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start N new episodes. Without a seed, the sequence of resets goes on from the last seed given."""
        super().reset(seed=seed)
        if options:
            raise UsageError(
                f"reset knows no options, but got {', '.join(options)}; episodes restart by themselves, one by one."
            )
        seed = int(self.np_random.integers(2**31)) if seed is None else seed
        return _array(self.batch.reset(seed).frames), {}

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        self.batch.send(torch.as_tensor(np.asarray(actions), dtype=torch.int64, device=self.batch.device))
        step = self.batch.recv()
        terminations = _array(step.terminated & step.episode_over)
        return _array(step.frames), _array(step.rewards.double()), terminations, _array(step.truncated), {}

    def close_extras(self, **_: Any) -> None:
        self.batch.close()


def _array(tensor: torch.Tensor) -> Array:
    """A copy of its own, as callers keep what they get."""
    return tensor.cpu().numpy().copy()
