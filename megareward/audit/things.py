"""Maps of thing models over recorded episodes, and the rows that they are compared with (`audit.controls`)."""

from collections.abc import Callable

import torch

from megareward.audit.controls import change_maps, seen_maps
from megareward.audit.maps import Maps
from megareward.audit.scores import Scores, score
from megareward.audit.truth import AuditedEpisode, Truth
from megareward.observers.things import ThingControl, ThingTracker
from megareward.stacking import stack_times
from megareward.things.models import ThingAttention, ThingModels


def thing_maps(models: ThingModels, truth: Truth, *, all_alike: bool = False) -> list[Maps]:
    """Maps of every recorded episode; all zero at frame 0. `all_alike`: every visible thing counts as controlled."""
    controls = [followed(models, episode, all_alike=all_alike) for episode in truth.episodes]
    return [Maps(control.direct, control.g, control.handed_on) for control in controls]


def followed(models: ThingModels, episode: AuditedEpisode, *, all_alike: bool = False) -> ThingControl:
    """The tracker's maps of an episode; its T + 1 frames take the place of environments."""
    tracker, only = ThingTracker(models, 1), torch.zeros(1, dtype=torch.int64, device=models.device)
    frames, actions = episode.frames.to(models.device), episode.actions.to(models.device)
    found = models.find(frames[None])[0]  # (T + 1, S, 6)
    steps = []
    for t in range(len(frames)):
        before = torch.tensor([max(t - 1, 0)])
        then = stack_times(before, before, models.K)[0]
        shown = torch.cat([then, torch.tensor([t])])
        attention = models.attend(frames[then][None], actions[before], frames[t][None], found[shown][None])
        if all_alike:
            attention = _alike(attention)
        now = stack_times(torch.tensor([t]), torch.tensor([t]), models.K)
        steps.append(tracker.follow(attention, frames[now], only == t, only))
    return ThingControl(*(torch.cat(parts).cpu() for parts in zip(*steps, strict=True)))


def _alike(attention: ThingAttention) -> ThingAttention:
    return attention._replace(direct=attention.now.any((-2, -1)).float())


def thing_controls(
    models: ThingModels,
    truth: Truth,
    seen: Truth,
    in_place: Callable[[list[Maps]], list[Maps]],
) -> dict[str, Scores]:
    """Untrained models guess nothing, so that nothing is under their control: all their scores are .5."""
    rho = models.config.latent.rho
    fresh = ThingModels(models.config, models.frame_shape, models.n_actions, models.device)
    fresh.copy_statistics(models)
    rows = {
        "untrained": in_place(thing_maps(fresh, seen)),
        "uniform": in_place(thing_maps(fresh, seen, all_alike=True)),
        "change": change_maps(truth),
        "seen": seen_maps(truth),
    }
    return {name: score(truth, maps, rho) for name, maps in rows.items()}
