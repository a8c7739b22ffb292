"""Play whole games with a trained policy and report the raw scores."""

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from megareward.envs.make import make_env
from megareward.errors import UsageError
from megareward.ppo.policy import Policy, sample
from megareward.training.checkpoint import load_newest, part
from megareward.training.config import TrainConfig
from megareward.training.rollout import Rollout
from megareward.training.run_folder import RunFolder
from megareward.training.score_book import ScoreBook

MAX_ENVS = 16


@dataclass(frozen=True)
class Evaluation:
    """Scores of complete games played by one checkpoint."""

    frames: int
    """Emulator frames the checkpoint was trained for."""
    seed: int
    greedy: bool
    scores: list[float]

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
    folder = RunFolder.open(path)
    config = folder.config()
    found = load_newest(folder.checkpoints, warn)
    if found is None:
        raise UsageError(f"{path} has no checkpoint yet; `megareward resume {path}` trains it first.")
    _, tensors, state = found
    weights = part(tensors, "policy")
    n_streams = weights["value_head.weight"].shape[0]
    scores = play(config, weights, n_streams, episodes, seed=seed, greedy=greedy, device=device, progress=progress)
    result = Evaluation(state["frames"], seed, greedy, scores)
    with open(folder.path / "eval.jsonl", "a") as file:
        file.write(json.dumps(dataclasses.asdict(result)) + "\n")
    return result


@torch.no_grad()
def play(
    config: TrainConfig,
    weights: dict[str, torch.Tensor],
    n_streams: int,
    episodes: int,
    *,
    seed: int,
    greedy: bool,
    device: torch.device,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[float]:
    """Raw scores of `episodes` games. Each environment owes a fixed number of them, so long games count fully."""
    N = min(episodes, MAX_ENVS)
    owed = np.full(N, episodes // N)
    owed[: episodes % N] += 1
    env = make_env(config.game, N, config.env, hide_score=config.hides_score, device=device)
    policy = Policy(env.frame_shape, env.n_actions, n_streams, config.policy).to(device).eval()
    policy.load_state_dict(weights)
    generator = torch.Generator(device).manual_seed(seed)
    rollout = Rollout(1, N, env.frame_shape, config.policy.stack, n_streams, device, keeps_score=False)
    book = ScoreBook(N)
    scores: list[float] = []
    try:
        rollout.show(0, env.reset(seed))
        while owed.any():
            logits, _ = policy(rollout.stack(0))
            if not config.spec.trains_policy:
                logits = torch.zeros_like(logits)  # random play
            clocks = torch.empty_like(logits).exponential_(generator=generator)
            env.send((logits.argmax(-1) if greedy else sample(logits, clocks)).to(env.device))
            step = env.recv()
            rollout.show(1, step)
            rollout.roll()
            book.record(step)
            for episode in book.close(0, 0):
                if owed[episode.env]:
                    owed[episode.env] -= 1
                    scores.append(episode.score)
                    progress(len(scores), episodes)
    finally:
        env.close()
    return scores
