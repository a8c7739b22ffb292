"""`megareward audit RUN...`: is what a run believes to control under control?"""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from megareward.envs.atari_config import AtariConfig
from megareward.errors import UsageError
from megareward.progress import Bar
from megareward.runs.folder import RunFolder
from megareward.training.config import TrainConfig, env_config_class

if TYPE_CHECKING:
    import torch

    from megareward.control.models import ControlModels

SHOWN_LAGS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class AuditArgs:
    """Find out by branching the game what each action truly controls, and score the runs' control maps against it."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of runs; several are shown side by side."""
    game: str | None = None
    """Another game with as many actions. [default: the run's own]"""
    policy: Literal["random", "trained"] = "random"
    """Who plays the episodes: dice, or the run's newest checkpoint."""
    lags: int = 64
    """Steps for which the effect of an action is followed."""
    frames: int = 300
    """Decisions per episode; it may end before."""
    episodes: int = 8
    seed: int = 2_000_000
    """Of the games; far from the seeds of training and evaluation."""
    cache: Path | None = None
    """Folder of the truth, which is found once. [default: audit-truth beside the run]"""
    processes: int = 0
    """Worker processes that branch Atari games; 0 is one per core."""
    json: Path | None = None
    """Write all scores into this file too. (Each run's own are in its folder, audit-POLICY.json.)"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the control models run."""


def command(words: list[str], parse: Callable[..., Any]) -> int:
    args = parse(AuditArgs, words, "audit")
    if not args.runs:
        raise UsageError("Which run? `megareward audit RUN...` takes the folders that `megareward train` wrote.")
    records = [audit(args, run, Bar("steps branched"), lambda text: print(text, file=sys.stderr)) for run in args.runs]
    print(table(records))
    if args.json is not None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(records, indent=1) + "\n")
    return 0


def audit(
    args: AuditArgs, run: Path, progress: Callable[[int, int], None], warn: Callable[[str], None]
) -> dict[str, Any]:
    """Audit one run; returns what is written into its folder."""
    folder = RunFolder.open(run)
    config = folder.config(warn)
    check_models(config, run)
    if args.game is not None:
        config = on_game(config, args.game)
    if isinstance(config.env, AtariConfig) and config.env.sticky:
        warn(f"{run} was trained with sticky actions ({config.env.sticky:g}); the audit plays without them.")

    from megareward.audit.learnt import learnt_maps
    from megareward.audit.record import Plan, find_truth
    from megareward.audit.scores import score
    from megareward.runs.provenance import provenance
    from megareward.training.evaluate import newest_tensors
    from megareward.training.run import pick_device

    device, begun = pick_device(args.device), time.monotonic()
    plan = Plan(args.policy, args.episodes, args.frames, args.lags, args.seed)
    learnt, frames = newest_tensors(folder, warn)
    models = load_models(config, learnt, device, run)
    cache = args.cache or run.absolute().parent / "audit-truth"
    truth, path = find_truth(config, plan, cache, learnt=learnt, processes=args.processes, progress=progress)
    found = time.monotonic()
    latent = config.control.latent
    scores = score(truth, learnt_maps(models, truth), latent.rho, latent.clip)
    record = {
        "run": run.absolute().name,
        "game": config.game,
        "method": config.method,
        "seed": config.seed,
        "trained_frames": frames,
        "policy": args.policy,
        "episodes": len(truth.episodes),
        "steps": sum(len(episode.actions) for episode in truth.episodes),
        "lags": args.lags,
        "scores": scores.as_dict(),
        "control": folder.record()["config"]["control"],
        "env": truth.about["env"],
        "truth": os.path.relpath(path, run),
        "seconds": {"truth": round(found - begun, 1), "scores": round(time.monotonic() - found, 1)},
        "provenance": provenance(device),
    }
    (run / f"audit-{args.policy}.json").write_text(json.dumps(record, indent=1) + "\n")
    return record


def check_models(config: TrainConfig, run: Path) -> None:
    if not config.tracks_control:
        raise UsageError(
            f"{run} was trained with '{config.method}' and has no control models to audit; "
            "use a run that tracks control, such as one of 'mega'."
        )
    if config.uses_oracle:
        raise UsageError(f"{run} was trained with an oracle: its maps are the truth, and there is nothing to audit.")


def on_game(config: TrainConfig, game: str) -> TrainConfig:
    """The same run on another game, with that game's default settings."""
    moved = TrainConfig(config.method, game)
    if moved.game == config.game:
        return config
    return replace(config, game=moved.game, env=env_config_class(moved.game)())


def load_models(config: TrainConfig, learnt: dict[str, Any], device: "torch.device", run: Path) -> "ControlModels":
    """The run's control models, if they can see and name what this game shows and does."""
    from megareward.control.models import ControlModels
    from megareward.envs.make import make_env
    from megareward.runs.checkpoint import part

    env = make_env(config.game, 1, config.env, hide_score=config.hides_score, device=device)
    models = ControlModels(config.control, env.frame_shape, env.n_actions, device)
    env.close()
    try:
        models.load_state_dict(part(learnt, "control"))
    except RuntimeError as mismatch:
        raise UsageError(
            f"The control models of {run} do not fit {config.game} with its {env.n_actions} actions and frames of "
            f"{env.frame_shape[0]}x{env.frame_shape[1]}; choose a --game like the run's own."
        ) from mismatch
    return models


# The table -----------------------------------------------------------------------------------------------------------


def table(records: list[dict[str, Any]]) -> str:
    """The scores for people, one column per run."""
    columns = [column(record) for record in records]
    rows = [[name, *(own.get(name, "") for own in columns)] for name in columns[0]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(records) + 1)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(
        [*lines, "", "Means over frames with 95% bootstrap intervals over episodes; docs/audit.md explains."]
    )


def column(record: dict[str, Any]) -> dict[str, str]:
    """What the table says about one run, by the name of the row."""
    scores, lags = record["scores"], record["scores"]["lag_auroc"]
    texts = {
        "run": record["run"],
        "game": f"{record['game']}, {record['policy']} play",
        "episodes": f"{record['episodes']} of {record['steps']} steps in all",
        "trained for": f"{record['trained_frames']:,} frames",
        "direct control, AUROC": estimate_text(scores["direct_auroc"]),
        "g, AUROC": estimate_text(scores["g_auroc"]),
        "g, rank correlation": estimate_text(scores["g_spearman"]),
        "all that can be seen, AUROC": estimate_text(scores["seen_auroc"]),
        "controlled but not to be seen": f"{scores['hidden']:.3f}",
    }
    texts |= {f"influence at lag {n}, AUROC": estimate_text(lags[n - 1]) for n in SHOWN_LAGS if n <= len(lags)}
    texts |= {f"{name}, calibration error": f"{scores[f'{name}_calibration']['error']:.3f}" for name in ("direct", "g")}
    return texts | {"self-attention": f"{scores['self_attention']:.3f}"}


def estimate_text(estimate: dict[str, Any]) -> str:
    if estimate["mean"] is None:
        return "no frame can tell"
    interval = "" if estimate["low"] is None else f" [{estimate['low']:.3f}, {estimate['high']:.3f}]"
    return f"{estimate['mean']:.3f}{interval}"
