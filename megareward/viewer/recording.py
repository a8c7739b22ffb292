"""A recording of one run, step by step: frames, actions and control maps."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from megareward.errors import UsageError
from megareward.runs.folder import RunFolder
from megareward.runs.logs import method_and_rule
from megareward.training.config import read_config
from megareward.training.evaluate import Player, newest_tensors
from megareward.types import Float, Tensor
from megareward.waiting import waiting

MAX_STEPS = 20_000


@dataclass(frozen=True)
class Maps:
    """Control maps of every frame of a recording; all zero at the first frame of a game."""

    direct: np.ndarray
    """(T, HW) float32, alpha(s_t, a_{t-1})."""
    g: np.ndarray
    """(T, HW) float32, accumulated control."""


@dataclass(frozen=True)
class RunMaps(Maps):
    """The maps of a run's control models."""

    mega_reward: np.ndarray
    """(T,) float32, mega-reward in the form of the run's config."""
    relation: np.ndarray | None = None
    """(T, to, from) uint8, alpha(s_t, s_{t-1}) in whole percent, so that small weights vanish. An oracle has none."""


@dataclass(frozen=True)
class Recording:
    """T consecutive frames of one environment. Games follow each other; `first` says where one begins."""

    game: str
    method: str
    seed: int
    frames_trained: int
    frame_skip: int
    """Emulator frames per step."""
    action_names: tuple[str, ...]
    H: int
    W: int
    frames: np.ndarray
    """(T, px_h, px_w) uint8: as the agent sees them, score painted out."""
    actions: np.ndarray
    """(T,) uint8: the action that led to the frame; without meaning where a game begins."""
    first: np.ndarray
    """(T,) bool."""
    points: np.ndarray | None
    """(T,) float32: raw score gained by that action, if it was kept. Shown to people, never to the agent."""
    learnt: RunMaps | None = None
    truth: Maps | None = None
    """The truth from an audit of the same frames."""

    def __post_init__(self) -> None:
        T = len(self.frames)
        maps = [m for m in (self.learnt, self.truth) if m is not None]
        for array in [self.actions, self.first, self.points, *(a for m in maps for a in (m.direct, m.g))]:
            if array is not None and len(array) != T:
                raise UsageError(f"A recording of {T} frames has {len(array)} entries elsewhere; align them first.")
        for m in maps:
            if m.direct.shape[1] != self.H * self.W or m.g.shape != m.direct.shape:
                raise UsageError(f"A map has {m.direct.shape[1]} cells, the grid {self.H} x {self.W}; they must agree.")

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def score(self) -> np.ndarray:
        """(T,) score of the running game so far; 0 where none was kept."""
        if self.points is None:
            return np.zeros(len(self), np.float32)
        total = np.cumsum(self.points, dtype=np.float64)
        opening = np.maximum.accumulate(np.where(self.first, np.arange(len(self)), 0))  # where this game began
        return (total - total[opening] + self.points[opening]).astype(np.float32)

    @property
    def n_games(self) -> int:
        return max(int(self.first.sum()), 1)


def record_run(
    path: Path,
    steps: int,
    *,
    seed: int = 1,
    greedy: bool = False,
    random: bool = False,
    device: torch.device,
    warn: Callable[[str], None] = print,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Recording:
    """Play with the newest checkpoint of a run and record it. `random`: actions are random, the maps its own."""
    if not 2 <= steps <= MAX_STEPS:
        raise UsageError(f"--steps is {steps}; it must lie between 2 and {MAX_STEPS}.")
    folder = RunFolder.open(path)
    config = read_config(folder, warn)
    with waiting("Reading the run and starting the game"):
        learnt, frames_trained = newest_tensors(folder, warn)
        draws = config.uses_oracle or any(name.startswith("observer.") for name in learnt)  # a copy may play only
        player = Player(config, learnt, 1, seed, device, with_relation=True, tracks=draws, random=random)
    frames, actions, first, points = [], [], [], []
    maps: dict[str, list[np.ndarray]] = {name: [] for name in ("direct", "g", "mega_reward", "relation")}
    try:
        for t in range(steps):
            step = player.step(greedy) if t else player.begin()
            frames.append(step.frames[0].cpu().numpy().copy())
            actions.append(int(player.actions[0]))
            first.append(bool(step.first[0]))
            points.append(float(step.rewards[0]))
            for name, series in maps.items():
                if (values := player.field(name)) is not None:
                    series.append(in_percent(values[0]) if name == "relation" else values[0].cpu().numpy().copy())
            progress(t + 1, steps)
    finally:
        player.env.close()
    learnt_maps = None
    if maps["g"]:
        learnt_maps = RunMaps(**{name: np.stack(series) for name, series in maps.items() if series})
    return Recording(
        game=config.game,
        method=shown_as(folder.record()["config"], random),
        seed=config.seed,
        frames_trained=frames_trained,
        frame_skip=player.env.frame_skip,
        action_names=tuple(player.env.action_names),
        H=config.control.H,
        W=config.control.W,
        frames=np.stack(frames),
        actions=np.array(actions, np.uint8),
        first=np.array(first),
        points=np.array(points, np.float32),
        learnt=learnt_maps,
    )


def shown_as(config: dict[str, Any], random: bool) -> str:
    """The method's name, marked if the play is random or the maps are an oracle's."""
    return f"{method_and_rule(config)}, random play" if random else method_and_rule(config)


def in_percent(relation: Float[Tensor, "*B to from"]) -> np.ndarray:
    return (relation * 100).round().to(torch.uint8).cpu().numpy()
