"""Play whole games with a trained policy and report the raw scores."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from megareward.envs.interface import Step
from megareward.envs.make import make_env
from megareward.errors import UsageError
from megareward.observers.oracle import OracleTracker
from megareward.observers.tracker import Control, ControlTracker
from megareward.ppo.policy import Policy, sample
from megareward.runs.checkpoint import load_newest, part
from megareward.runs.folder import RunFolder
from megareward.training.config import TrainConfig
from megareward.training.rollout import Rollout
from megareward.training.score_book import Episode, ScoreBook
from megareward.training.tracking import as_channel, make_tracker
from megareward.types import Tensor

MAX_ENVS = 16


@dataclass(frozen=True)
class Evaluation:
    """Scores of complete games played by one checkpoint."""

    frames: int
    """Emulator frames the checkpoint was trained for."""
    seed: int
    greedy: bool
    scores: list[float]
    cut: int
    """How many of the games a time limit ended."""

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores))

    @property
    def standard_error(self) -> float:
        return float(np.std(self.scores, ddof=1) / np.sqrt(len(self.scores))) if len(self.scores) > 1 else float("nan")


def evaluate_run(
    path: Path,
    episodes: int,
    *,
    seed: int = 1_000_000,
    greedy: bool = False,
    device: torch.device,
    warn: Callable[[str], None] = print,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Evaluation:
    """Play with the newest checkpoint of a run, under the run's own protocol; append the scores to eval.jsonl."""
    if episodes < 1:
        raise UsageError(f"--episodes is {episodes}; it must be at least 1.")
    if not 0 <= seed < 2**31:
        raise UsageError(f"--seed is {seed}; it must lie between 0 and {2**31 - 1}.")
    folder = RunFolder.open(path)
    config = folder.config(warn)
    learnt, frames = newest_tensors(folder, warn)
    games = play(config, learnt, episodes, seed=seed, greedy=greedy, device=device, progress=progress)
    result = Evaluation(frames, seed, greedy, [game.score for game in games], sum(game.cut for game in games))
    folder.append("eval.jsonl", dataclasses.asdict(result))
    return result


def newest_tensors(folder: RunFolder, warn: Callable[[str], None]) -> tuple[dict[str, Tensor], int]:
    """All tensors of the newest whole checkpoint, and the frames it was trained for."""
    found = load_newest(folder.checkpoints, warn)
    if found is None:
        raise UsageError(f"{folder.path} has no checkpoint yet; `megareward resume {folder.path}` trains it first.")
    _, tensors, state = found
    return tensors, state["frames"]


class Player:
    """N games played by what a checkpoint holds, which no longer learns; without it, by dice."""

    def __init__(
        self,
        config: TrainConfig,
        learnt: dict[str, Tensor] | None,
        n_envs: int,
        seed: int,
        device: torch.device,
        with_relation: bool = False,
        tracks: bool = True,
    ) -> None:
        """`tracks` False leaves the control models out where the policy does not see what they say."""
        self.device, self.seed, self.with_relation = device, seed, with_relation
        self.control: Control | None = None
        """What the tracker said of the newest frame."""
        self.env = make_env(config.game, n_envs, config.env, hide_score=config.hides_score, device=device)
        env = self.env
        self.policy: Policy | None = None
        self.tracker: ControlTracker | OracleTracker | None = None
        n_cells = 0
        if learnt is not None and config.spec.trains_policy:
            weights = part(learnt, "policy")
            n_streams = weights["value_head.weight"].shape[0]
            self.policy = Policy(env.frame_shape, env.n_actions, n_streams, config.policy, int(config.shows_g))
            self.policy.to(device).eval().load_state_dict(weights)
        if learnt is not None and (config.shows_g or (tracks and config.tracks_control)):
            self.tracker = make_tracker(config, env, device, seed)
            self.tracker.models.load_state_dict(part(learnt, "control"))
            n_cells = self.tracker.models.grid.n_cells
        self.shows_g = config.shows_g
        self.generator = torch.Generator(device).manual_seed(seed)
        self.rollout = Rollout(1, n_envs, env.frame_shape, config.policy.stack, 1, device, False, n_cells)

    def begin(self) -> Step:
        step = self.env.reset(self.seed)
        self.rollout.show(0, step)
        self._track(0)
        return step

    @torch.no_grad()
    def step(self, greedy: bool = False) -> Step:
        logits = torch.zeros(self.env.n_envs, self.env.n_actions, device=self.device)
        if self.policy is not None:
            extra = as_channel(self.rollout.g[0], self.tracker.models) if self.tracker and self.shows_g else None
            logits, _ = self.policy(self.rollout.stack(0), extra)
        clocks = torch.empty_like(logits).exponential_(generator=self.generator)
        actions = logits.argmax(-1) if greedy else sample(logits, clocks)
        self.env.send(actions.to(self.env.device))
        step = self.env.recv()
        self.rollout.actions[0] = actions
        self.rollout.show(1, step)
        self._track(1)
        self.rollout.roll()
        return step

    def _track(self, t: int) -> None:
        if self.tracker is not None:
            rollout = self.rollout
            control = self.tracker.step(rollout.stack(t), rollout.actions[0], rollout.first[t], self.with_relation)
            rollout.judge(rollout.index(t), control.direct, control.g, control.reward)
            self.control = control


def play(
    config: TrainConfig,
    learnt: dict[str, Tensor] | None,
    episodes: int,
    *,
    seed: int = 1_000_000,
    greedy: bool = False,
    device: torch.device,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Episode]:
    """`episodes` whole games. Each environment owes a fixed number of them, so long games count fully."""
    N = min(episodes, MAX_ENVS)
    owed = np.full(N, episodes // N)
    owed[: episodes % N] += 1
    player, book, games = Player(config, learnt, N, seed, device, tracks=False), ScoreBook(N), list[Episode]()
    try:
        player.begin()
        while owed.any():
            book.record(player.step(greedy))
            for episode in book.close(0, 0):
                if owed[episode.env]:
                    owed[episode.env] -= 1
                    games.append(episode)
            progress(len(games), episodes)
    finally:
        player.env.close()
    return games
