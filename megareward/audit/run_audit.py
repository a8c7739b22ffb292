"""Audit one run: do its control maps agree with the truth?"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from megareward.audit.camera import film
from megareward.audit.controls import hidden
from megareward.audit.learnt import as_seen
from megareward.audit.maps import Maps
from megareward.audit.models import load_models, maps_and_controls
from megareward.audit.record import Plan, find_truth
from megareward.audit.scores import as_dict, calibration, handed_to_movers, in_short, score
from megareward.audit.truth import Truth
from megareward.control.config import LatentConfig
from megareward.control.models import ControlModels
from megareward.envs.atari_config import AtariConfig
from megareward.errors import UsageError
from megareward.runs.durable import save_file
from megareward.runs.folder import RunFolder
from megareward.runs.provenance import provenance
from megareward.state import part
from megareward.things.models import ThingModels
from megareward.training.config import TrainConfig, read_config
from megareward.training.evaluate import newest_tensors
from megareward.training.parts import make_game
from megareward.types import Tensor
from megareward.waiting import waiting


def audit_run(
    run: Path,
    *,
    game: str | None = None,
    policy: Literal["random", "trained"] = "random",
    lags: int = 64,
    frames: int = 300,
    episodes: int = 8,
    seed: int = 2_000_000,
    cache: Path | None = None,
    truth_from: Path | None = None,
    processes: int = 0,
    device: torch.device,
    warn: Callable[[str], None] = print,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> dict[str, Any]:
    """Score a run's control maps against the truth, which is found by branching the game.

    run: the folder that training wrote; the newest checkpoint in it is audited.
    game: another game with as many actions. If None, the run's own.
    policy: plays the episodes: uniformly random actions, or the run's own policy.
    lags: steps for which the effect of an action is followed.
    frames, episodes, seed: most decisions per episode, number of episodes, and the seed of the games.
    cache: folder that keeps the truth for later audits. If None, `audit-truth` beside the run.
    truth_from: an existing truth set, or a folder of such; it must be the one asked for, and nothing is branched.
    processes: workers that branch Atari games; 0: one per core.
    device: of the control models.

    Returns the scores, those of controls (`audit.controls`) and a description of both; `save_audit` writes them.
    """
    folder = RunFolder.open(run)
    config = read_config(folder, warn)
    check_models(config, run)
    if policy == "trained" and (config.env.moving_camera or config.stabilise):
        raise UsageError(
            f"{run} sees its game through a moving camera or held still, and the truth is played without either; "
            "use --policy random."
        )
    own_game = config.game
    if game is not None:
        config = on_game(config, game)
    if isinstance(config.env, AtariConfig) and config.env.sticky:
        warn(f"{run} was trained with sticky actions ({config.env.sticky:g}); the audit plays without them.")
    begun = time.monotonic()
    plan = Plan(policy, episodes, frames, lags, seed)
    with waiting("Reading the run"):
        learnt, trained_frames = newest_tensors(folder, warn)
        models = models_of_run(config, learnt, device, run)
    cache = cache or run.absolute().parent / "audit-truth"
    how: dict[str, Any] = {"processes": processes, "progress": progress, "warn": warn}
    truth, path = find_truth(config, plan, cache, given=truth_from, learnt=learnt, **how)
    found = time.monotonic()
    shown, latent = film(truth, config), config.control.latent
    seen = as_seen(shown.truth, config.noise)
    with waiting("Making and scoring the maps"):
        as_made, rows = maps_and_controls(models, truth, seen, shown.in_place)
        maps = shown.in_place(as_made)
        scores = as_dict(score(truth, maps, latent.rho)) | other_scores(truth, maps, latent)
        if as_made[0].relation is not None:  # it is of two frames, and a camera moves between them
            scores["self_attention"] = float(_all(as_made, "relation").diagonal(dim1=1, dim2=2).mean())
    return {
        "run": run.absolute().name,
        "game": config.game,
        "on_another_game": config.game != own_game,
        "method": config.method,
        "seed": config.seed,
        "trained_frames": trained_frames,
        "policy": policy,
        "episodes": len(truth.episodes),
        "steps": sum(len(episode.actions) for episode in truth.episodes),
        "lags": lags,
        "scores": scores,
        "controls": {name: in_short(row) for name, row in rows.items()},
        "hidden": hidden(truth),
        "control": folder.record()["config"]["control"],
        "env": truth.about["env"],
        "truth": os.path.relpath(path, run),
        "seconds": {"truth": round(found - begun, 1), "scores": round(time.monotonic() - found, 1)},
        "provenance": provenance(device),
    }


def save_audit(record: dict[str, Any], folder: Path) -> Path:
    """Write an audit into the run's folder, where `report` and `watch --audited` look for it, or into another one.
    Audits on another game than the run's own get another name."""
    name = f"audited-on-{record['game']}" if record["on_another_game"] else "audit"
    return save_file(folder / f"{name}-{record['policy']}.json", (json.dumps(record, indent=1) + "\n").encode())


def other_scores(truth: Truth, maps: list[Maps], latent: LatentConfig) -> dict[str, Any]:
    """Scores for models only: calibration, and to which movers control is handed. g is divided by its bound."""
    true_direct = torch.cat([episode.direct[1:] for episode in truth.episodes])
    controlled = torch.cat([episode.influence.any(1)[1:] for episode in truth.episodes])
    handed_on = [own.handed_on for own in maps if own.handed_on is not None]
    return {
        "direct_calibration": calibration(_all(maps, "direct"), true_direct),
        "g_calibration": calibration(_all(maps, "g") / latent.bound, controlled),
        "handed_to_movers": handed_to_movers(truth, handed_on),
    }


def _all(maps: list[Maps], name: str) -> Tensor:
    return torch.cat([getattr(own, name)[1:] for own in maps])


def check_models(config: TrainConfig, run: Path) -> None:
    if not config.tracks_control:
        raise UsageError(
            f"{run} was trained with '{config.method}' and has no control models to audit; "
            "use a run that tracks control, such as one of 'mega'."
        )
    if config.noise.tv == "action":
        raise UsageError(f"{run} has an action that switches a screen on, which no game can branch; audit another run.")
    if config.uses_oracle:
        raise UsageError(f"{run} was trained with an oracle: its maps are the truth, and there is nothing to audit.")


def on_game(config: TrainConfig, game: str) -> TrainConfig:
    """The same run on another game, with that game's default settings."""
    moved = TrainConfig(config.method, game)
    if moved.game == config.game:
        return config
    return replace(config, game=moved.game, env=moved.game_row.config())


def models_of_run(
    config: TrainConfig, learnt: dict[str, Any], device: torch.device, run: Path
) -> ControlModels | ThingModels:
    """The run's control models, if they fit the frames and the actions of this game."""
    if not part(learnt, "observer.control"):
        raise UsageError(
            f"{run} holds no control models; audit the run itself, or what `export --to-watch` made of it."
        )
    env = make_game(config, 1, device)
    env.close()
    try:
        return load_models(config.control, env.frame_shape, env.n_actions, learnt, device)
    except (RuntimeError, KeyError) as mismatch:
        raise UsageError(
            f"The control models of {run} do not fit {config.game} with its {env.n_actions} actions and frames of "
            f"{env.frame_shape[0]}x{env.frame_shape[1]}; choose a --game like the run's own."
        ) from mismatch
