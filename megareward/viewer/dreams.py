"""What a run's World Model sees and dreams, as a picture; and its original controller, trained by CMA-ES."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch

from megareward.errors import UsageError
from megareward.runs.folder import RunFolder
from megareward.state import part
from megareward.training.config import TrainConfig, read_config
from megareward.training.evaluate import Player, mismatch_explained, newest_tensors
from megareward.training.parts import make_game
from megareward.world_model.controller import EvolutionConfig, evolve, play
from megareward.world_model.dreams import dream, watch
from megareward.world_model.learner import WorldModel

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROWS = ("the game", "V's drawing of it", "expected by M", "dreamt by M")
SEED = 4_000_000
"""Seed of the games; far from those of training, evaluation and audits."""
TEST_GAMES = 64
"""Games in which C and random play are compared."""


def load_world(run: Path, device: torch.device, warn: Callable[[str], None]) -> tuple[TrainConfig, WorldModel, int]:
    """The newest V and M of a run, and the frames it was trained for."""
    folder = RunFolder.open(run)
    config = read_config(folder, warn)
    tensors, frames = newest_tensors(folder, warn)
    learnt = part(tensors, "observer.world.model")
    if not learnt:
        raise UsageError(
            f"{run} was trained with '{config.method}' and has no World Model; `megareward pretrain world` makes one."
        )
    env = make_game(config, 1, device)
    model = WorldModel(config.reward, env.frame_shape, env.n_actions, device, config.seed)
    env.close()
    with mismatch_explained():
        model.load_state_dict(learnt)
    return config, model, frames


def dream_pictures(
    config: TrainConfig,
    model: WorldModel,
    *,
    before: int = 16,
    steps: int = 24,
    shown: int = 9,
    temperature: float = 1.0,
    seed: int = SEED,
) -> np.ndarray:
    """(rows, shown, px_h, px_w): random play that M watches for `before` steps and then foresees for `steps`, at
    so many moments. The first column is the last frame that M has seen; rows are those of ROWS."""
    player = Player(config, None, 1, seed, model.device)
    frames, actions = [player.begin().frames], []
    for _ in range(before + steps):
        step = player.step()
        frames.append(step.frames)
        actions.append(player.actions.clone())
    player.env.close()
    seen, taken = torch.stack(frames).to(model.device), torch.stack(actions).to(model.device)
    z, state = watch(model, seen[: before + 1], taken[:before])
    draws = torch.Generator(model.device).manual_seed(seed)
    real = seen[before:]
    drawn = model.vision.decode(model.codes(real[:, 0])[0])[:, None]
    expected, _ = dream(model, z, state, taken[before:])
    dreamt, _ = dream(model, z, state, taken[before:], draws, temperature)
    begins = drawn[:1]
    rows = torch.stack([real, drawn, torch.cat([begins, expected]), torch.cat([begins, dreamt])])[:, :, 0]
    moments = torch.linspace(0, steps, shown).round().long()
    return rows[:, moments.to(rows.device)].cpu().numpy()


def draw(pictures: np.ndarray, steps: int, title: str, out: Path) -> None:
    n_rows, shown = pictures.shape[:2]
    axes: Any
    figure, axes = plt.subplots(n_rows, shown, figsize=(1.05 * shown, 1.2 * n_rows), layout="constrained")
    for r, row in enumerate(ROWS):
        for i in range(shown):
            axes[r, i].imshow(pictures[r, i], cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            axes[r, i].set(xticks=[], yticks=[])
            if r == 0:
                axes[r, i].set_title(f"+{round(i * steps / (shown - 1))}", fontsize=8)
        axes[r, 0].set_ylabel(row, fontsize=8)
    figure.suptitle(title, fontsize=9)
    figure.savefig(out, dpi=110)
    plt.close(figure)


def find_controller(
    config: TrainConfig, model: WorldModel, evolution: EvolutionConfig, tell: Callable[[int, float, float], None]
) -> dict[str, Any]:
    """Train C by CMA-ES and compare its score with random play, in games that were not used to train it."""

    def make_env(n: int) -> Any:
        return make_game(config, n, model.device)

    weights = evolve(model, make_env, evolution, tell)
    env = make_env(TEST_GAMES)
    found = play(model, env, weights.expand(TEST_GAMES, -1), evolution.steps, SEED)
    at_random = play(model, env, None, evolution.steps, SEED)
    env.close()

    def error(scores: torch.Tensor) -> float:
        return float(scores.std()) / TEST_GAMES**0.5

    return {
        "weights": weights,
        "score": float(found.mean()),
        "score_error": error(found),
        "random": float(at_random.mean()),
        "random_error": error(at_random),
    }
