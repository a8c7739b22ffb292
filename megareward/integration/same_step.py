"""Mini games that reset within the step, as Stable-Baselines3 and most loops written for older Gymnasium expect."""

from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from megareward.envs.gymnasium_adapter import Array, GymnasiumVector
from megareward.envs.mini import MiniConfig
from megareward.envs.mini.base import MiniGame
from megareward.envs.mini.games import make_mini


class SameStepMini(GymnasiumVector):
    """N copies of a mini game; frames are (1, px_h, px_w), and after an end the observation opens the next episode.

    Given the same actions, every environment shows the same frames as our own stream, without the extra step of a reset
    between episodes.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012  Gymnasium's own pattern
    batch: MiniGame[Any]

    def __init__(
        self, game: str, n_envs: int, config: MiniConfig | None = None, device: torch.device | str = "cpu"
    ) -> None:
        super().__init__(make_mini(game, n_envs, config, device))
        self.single_observation_space = Box(0, 255, (1, *self.batch.frame_shape), np.uint8)
        self.observation_space = batch_space(self.single_observation_space, n_envs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        frames, infos = super().reset(seed=seed, options=options)
        return frames[:, None], infos

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        frames, rewards, terminations, truncations, infos = super().step(actions)
        frames, ended = frames[:, None], np.flatnonzero(terminations | truncations)
        if len(ended):
            last = np.full(self.num_envs, None, dtype=object)
            for n in ended:
                last[n] = frames[n].copy()
            infos = {"final_obs": last, "_final_obs": terminations | truncations}
            frames[ended] = self._reopen(ended)[:, None]
        return frames, rewards, terminations, truncations, infos

    def _reopen(self, ended: Array) -> Array:
        """Let the environments that ended take the step that opens their next episode, while the others wait."""
        index = torch.from_numpy(ended).to(self.batch.device)
        some = self.batch.select(index)
        frames = some.step(torch.zeros_like(index)).frames
        state = self.batch.state_dict()
        for name, rows in some.state_dict().items():
            state[name][index] = rows
        self.batch.load_state_dict(state)
        return frames.cpu().numpy()
