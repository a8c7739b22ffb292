"""Raw scores of finished episodes. The only place that sees the game's rewards under the play protocol."""

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from megareward.envs.interface import Step
from megareward.statistics.scores import RECENT


@dataclass(frozen=True)
class Episode:
    """A finished game."""

    frames: int
    """Emulator frames of training so far, over all environments, when it ended."""
    score: float
    steps: int
    env: int
    cut: bool
    """True if a time limit ended it."""


class ScoreBook:
    """Adds up each environment's raw score and keeps the mean of the last 50 games."""

    def __init__(self, n_envs: int) -> None:
        self.running = np.zeros(n_envs, dtype=np.float64)
        self.steps = np.zeros(n_envs, dtype=np.int64)
        self.recent: deque[float] = deque(maxlen=RECENT)
        self.episodes = 0
        self._rows: list[torch.Tensor] = []

    def record(self, step: Step) -> None:
        """Keep one step of all environments, or of the current group, on the device; `close` reads it."""
        flags = [step.episode_over, step.truncated & step.episode_over, step.first]
        self._rows.append(torch.stack([step.rewards.double(), *(f.double() for f in flags)]))

    def close(self, frames: int, frames_per_step: int) -> list[Episode]:
        """Finished games among the steps recorded since the last call; the first of these began at `frames` frames."""
        if not self._rows:
            return []
        groups = len(self.running) // self._rows[0].shape[1]
        turns = torch.stack(self._rows).unflatten(0, (-1, groups))  # (T, groups, 4, n)
        rows = turns.transpose(1, 2).flatten(2).cpu().numpy()  # (T, 4, N)
        self._rows = []
        finished: list[Episode] = []
        for t, (rewards, over, cut, first) in enumerate(rows):
            self.running += rewards
            self.steps += first == 0
            for n in np.flatnonzero(over):
                now = frames + (t + 1) * frames_per_step
                finished.append(Episode(now, float(self.running[n]), int(self.steps[n]), int(n), bool(cut[n])))
                self.running[n], self.steps[n] = 0.0, 0
        self.recent.extend(e.score for e in finished)
        self.episodes += len(finished)
        return finished

    @property
    def mean(self) -> float | None:
        """Mean score of the last 50 finished games."""
        return float(np.mean(self.recent)) if self.recent else None

    def state(self) -> dict[str, Any]:
        return {
            "running": self.running.tolist(),
            "steps": self.steps.tolist(),
            "recent": list(self.recent),
            "episodes": self.episodes,
        }

    def load_state(self, state: dict[str, Any], *, same_games: bool) -> None:
        """`same_games` False: the emulator starts new episodes after a restart, so unfinished games are dropped."""
        if same_games:
            self.running, self.steps = np.array(state["running"]), np.array(state["steps"])
        self.recent = deque(state["recent"], maxlen=RECENT)
        self.episodes = state["episodes"]
