"""The episodes of an audit as a recording: the run's control maps beside the truth."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from megareward.audit.camera import film
from megareward.audit.learnt import LearntMaps, as_seen, learnt_maps
from megareward.audit.models import load_models
from megareward.audit.things import followed
from megareward.audit.truth import load_truth
from megareward.errors import UsageError
from megareward.observers.things import ThingControl
from megareward.runs.folder import RunFolder
from megareward.things.models import ThingModels
from megareward.training.config import read_config
from megareward.training.evaluate import mismatch_explained, newest_tensors
from megareward.viewer.recording import Maps, Recording, RunMaps, in_percent, shown_as
from megareward.viewer.runs import read_audit


def record_audit(path: Path, policy: str, *, device: torch.device, warn: Callable[[str], None] = print) -> Recording:
    """Every episode of `megareward audit RUN --policy POLICY`, one after another. Scores are not part of an audit."""
    folder = RunFolder.open(path)
    report = path / f"audit-{policy}.json"
    if not report.exists():
        raise UsageError(f"{report} does not exist; `megareward audit {path} --policy {policy}` finds the truth first.")
    config, (learnt, frames_trained) = read_config(folder, warn), newest_tensors(folder, warn)
    truth = load_truth(path / str(read_audit(report).get("truth", "truth")))
    with mismatch_explained():
        models = load_models(config.control, truth.frame_shape, len(truth.action_names), learnt, device)
    shown = film(truth, config)
    if shown.offsets is not None:
        raise UsageError(
            f"{path} sees its game through a moving camera, and the truth is seen by one that stands still; "
            "only a run whose --stabilise found every shift can be shown beside it."
        )
    seen = as_seen(shown.truth, config.noise)
    episodes = truth.episodes
    rho, nothing = config.control.latent.rho, torch.zeros(1, dtype=torch.int64)
    bound = float((rho ** torch.arange(truth.lags)).sum())

    def joined(parts: list[torch.Tensor]) -> np.ndarray:
        return torch.cat(parts).cpu().numpy()

    maps: Sequence[LearntMaps | ThingControl]
    relation = None
    if isinstance(models, ThingModels):
        maps = [followed(models, episode) for episode in seen.episodes]
    else:
        maps = of_cells = learnt_maps(models, seen)
        relation = in_percent(torch.cat([m.relation for m in of_cells]))
    return Recording(
        game=truth.about["game"],
        method=shown_as(folder.record()["config"], policy == "random"),
        seed=config.seed,
        frames_trained=frames_trained,
        frame_skip=config.env.frame_skip,
        action_names=truth.action_names,
        H=config.control.H,
        W=config.control.W,
        frames=joined([e.frames for e in seen.episodes]),
        actions=joined([torch.cat([nothing, e.actions]) for e in episodes]).astype(np.uint8),
        first=joined([torch.arange(len(e.frames)) == 0 for e in episodes]),
        points=None,
        learnt=RunMaps(
            joined([m.direct for m in maps]),
            joined([m.g for m in maps]),
            joined([m.mega_reward for m in maps]),
            relation,
        ),
        # Eq. 9 divided by its bound: the discounted share of the followed actions that control the cell.
        truth=Maps(joined([e.direct.float() for e in episodes]), joined([e.g(rho) / bound for e in episodes])),
    )
