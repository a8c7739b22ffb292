"""The control models of a run, of cells or of things: the only place where audits distinguish the two."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from megareward.audit.controls import controls
from megareward.audit.learnt import learnt_maps
from megareward.audit.maps import Maps
from megareward.audit.scores import Scores
from megareward.audit.things import thing_controls, thing_maps
from megareward.audit.truth import Truth
from megareward.control.config import ControlConfig
from megareward.control.models import ControlModels
from megareward.state import part
from megareward.things.models import ThingModels


def load_models(
    config: ControlConfig,
    frame_shape: tuple[int, int],
    n_actions: int,
    learnt: Mapping[str, Any],
    device: torch.device,
) -> ControlModels | ThingModels:
    """The control models of a checkpoint."""
    make = ThingModels if config.things.slots else ControlModels
    models: ControlModels | ThingModels = make(config, frame_shape, n_actions, device)
    models.load_state_dict(part(learnt, "observer.control"))
    return models


def maps_and_controls(
    models: ControlModels | ThingModels,
    truth: Truth,
    seen: Truth,
    in_place: Callable[[list[Maps]], list[Maps]],
) -> tuple[list[Maps], dict[str, Scores]]:
    """The models' maps of the recorded episodes, where the models see them, and the reference rows; `seen` and
    `in_place` are those of `audit.controls.controls`."""
    if isinstance(models, ThingModels):
        return thing_maps(models, seen), thing_controls(models, truth, seen, in_place)
    maps = [own.to_score(truth.lags) for own in learnt_maps(models, seen)]
    return maps, controls(models, truth, seen=seen, in_place=in_place)
