"""Maps from other code on the same truth: from a file of arrays, or from a function that gets the episodes.

A map is an array (T + 1, H, W) or (T + 1, H * W), one value per cell of every frame; or (T + 1, px_h, px_w), of which a
cell gets the mean. Its name says what it is a map of:

    map        one map for everything: scored as direct control, as g, and over the movers
    direct     control of the last action
    g          control of all actions so far
    handed_on  of g, what the cell took over in this step; if omitted, what `relation` makes of g, or else g itself
    influence  (T + 1, L, ...): control of the action n steps ago, at [t, n - 1]
    relation   (T + 1, HW, HW): how far each cell follows from each cell of the frame before, [t, to, from]

A file (.npz) has `NAME.EPISODE` for every episode: map.0, map.1, ... A function is called as
function(frames, actions, (H, W)) with the arrays of one episode, and returns a map or a dict of maps by name.
"""

import importlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from megareward.audit.benchmark import checksum, verdict
from megareward.audit.controls import controls, hidden
from megareward.audit.maps import Maps
from megareward.audit.record import Plan, find_truth
from megareward.audit.scores import as_dict, in_short, score
from megareward.audit.truth import AuditedEpisode, Truth
from megareward.control.grid import Grid
from megareward.control.latent import chain
from megareward.control.models import ControlModels
from megareward.errors import UsageError
from megareward.runs.provenance import provenance
from megareward.training.config import TrainConfig
from megareward.training.presets import with_preset
from megareward.types import Tensor

NAMES = ("map", "direct", "g", "handed_on", "influence", "relation")


def audit_maps(
    sources: Sequence[str],
    game: str,
    plan: Plan,
    *,
    cache: Path,
    truth_from: Path | None = None,
    processes: int = 0,
    device: torch.device,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[dict[str, Any]]:
    """Score the maps of each source, FILE.npz or module:function, on the truth of a game. Returns records as
    `audit_run` does; untrained models in them are those of this project's default. `truth_from`: as there."""
    config = with_preset(TrainConfig("mega", game), "auto")
    begun = time.monotonic()
    truth, path = find_truth(config, plan, cache, given=truth_from, processes=processes, progress=progress)
    found = time.monotonic()
    given = [read_maps(source, truth) for source in sources]
    rows = {name: in_short(row) for name, row in controls(untrained(truth, device), truth).items()}
    digest = checksum(truth)
    about = {
        "game": config.game,
        "method": "maps",
        "seed": None,
        "trained_frames": None,
        "policy": plan.policy,
        "episodes": len(truth.episodes),
        "steps": sum(len(episode.actions) for episode in truth.episodes),
        "lags": plan.lags,
        "controls": rows,
        "hidden": hidden(truth),
        "env": truth.about["env"],
        "truth": str(path),
        "checksum": {"sha256": digest, "verdict": verdict(config.game, plan, digest)},
        "seconds": {"truth": round(found - begun, 1), "scores": round(time.monotonic() - found, 1)},
        "provenance": provenance(device),
    }
    rho = config.control.latent.rho
    return [
        {"run": source, **about, "scores": as_dict(score(truth, maps, rho))}
        for source, maps in zip(sources, given, strict=True)
    ]


def untrained(truth: Truth, device: torch.device) -> ControlModels:
    """Untrained models with the statistics of the episodes: with relations by pairs, since those by sight use nearness
    even untrained, and with the rules that give g its highest scores."""
    config = with_preset(TrainConfig("mega", truth.about["game"]), "auto").control
    rules = replace(config.latent, combine="sum", hold=True, clip=True, above_chance=True)
    config = replace(config, rtm=replace(config.rtm, model="pairs"), latent=rules)
    models = ControlModels(config, truth.frame_shape, len(truth.action_names), device)
    frames = torch.cat([episode.frames for episode in truth.episodes]).to(device)
    models.normaliser.observe(frames)
    models.background.observe(frames)
    return models


def read_maps(source: str, truth: Truth) -> list[Maps]:
    """The maps of a source, one `Maps` per episode."""
    given = _from_file(Path(source), truth) if source.endswith(".npz") else _from_function(source, truth)
    return [_as_maps(one, e, truth.grid, f"{source}, episode {i}") for i, (one, e) in enumerate(given)]


def _from_file(path: Path, truth: Truth) -> list[tuple[Mapping[str, Any], AuditedEpisode]]:
    if not path.is_file():
        raise UsageError(f"{path} does not exist; --maps takes FILE.npz or module:function.")
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    given: list[tuple[Mapping[str, Any], AuditedEpisode]] = []
    for i, episode in enumerate(truth.episodes):
        own = {name.rpartition(".")[0]: array for name, array in arrays.items() if name.rpartition(".")[2] == str(i)}
        if not own:
            raise UsageError(
                f"{path} has no map of episode {i} of {len(truth.episodes)}; it must hold NAME.{i}, such as map.{i}."
            )
        given.append((own, episode))
    return given


def _from_function(source: str, truth: Truth) -> list[tuple[Mapping[str, Any], AuditedEpisode]]:
    module, colon, name = source.partition(":")
    if not (module and colon and name):
        raise UsageError(f"--maps is {source}; use FILE.npz or module:function.")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does; an installed program looks elsewhere only
    try:
        function = getattr(importlib.import_module(module), name)
    except (ModuleNotFoundError, AttributeError) as missing:
        raise UsageError(
            f"--maps {source}: {missing}; modules are looked for here and among those installed."
        ) from None
    given = []
    for episode in truth.episodes:
        made = function(episode.frames.numpy(), episode.actions.numpy(), (truth.grid.H, truth.grid.W))
        given.append((made if isinstance(made, Mapping) else {"map": made}, episode))
    return given


def _as_maps(given: Mapping[str, Any], episode: AuditedEpisode, grid: Grid, whose: str) -> Maps:
    unknown = sorted(set(given) - set(NAMES))
    if unknown:
        raise UsageError(f"{whose} has a map called '{unknown[0]}'; names are {', '.join(NAMES)}.")
    T_plus_1, L = episode.changed.shape[:2]
    cells = {
        name: _in_cells(array, (T_plus_1, L) if name == "influence" else (T_plus_1,), grid, f"{name} of {whose}")
        for name, array in given.items()
        if name != "relation"
    }
    relation = None
    if "relation" in given:
        relation = _tensor(given["relation"], f"relation of {whose}")
        if relation.shape != (T_plus_1, grid.n_cells, grid.n_cells):
            raise UsageError(
                f"The relation of {whose} has the shape {tuple(relation.shape)}; "
                f"it must be {(T_plus_1, grid.n_cells, grid.n_cells)}."
            )
    for name in ("direct", "g"):
        if "map" in cells:
            cells.setdefault(name, cells["map"])
    g = cells.get("g")
    handed_on = g
    if g is not None and relation is not None:
        handed_on = torch.cat([torch.zeros_like(g[:1]), chain(relation[1:], g[:-1])])
    return Maps(cells.get("direct"), g, cells.get("handed_on", handed_on), cells.get("influence"), relation)


def _tensor(array: Any, what: str) -> Tensor:
    values = torch.as_tensor(np.asarray(array, dtype=np.float32))
    if not values.isfinite().all():
        raise UsageError(f"The {what} holds values that are not finite; give every cell a number.")
    return values


def _in_cells(array: Any, lead: tuple[int, ...], grid: Grid, what: str) -> Tensor:
    """(*lead, HW), from cells in either form or from pixels."""
    values = _tensor(array, what)
    px = (grid.H * grid.cell_h, grid.W * grid.cell_w)
    shapes = ((grid.H, grid.W), (grid.n_cells,), px)
    if values.shape[: len(lead)] == lead and values.shape[len(lead) :] in shapes:
        if values.shape[len(lead) :] == px:
            return values.reshape(*lead, grid.H, grid.cell_h, grid.W, grid.cell_w).mean((-3, -1)).flatten(-2)
        return values.reshape(*lead, grid.n_cells)
    wanted = " or ".join(str((*lead, *shape)) for shape in shapes)
    raise UsageError(f"The {what} has the shape {tuple(values.shape)}; it must be {wanted}.")
