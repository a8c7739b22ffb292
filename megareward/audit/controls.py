"""Reference rows for scores: untrained models, rules without a model, mere change, and the best that can be seen.

**Untrained** models have the settings of the audited ones, their rules, and their statistics of pixels and background;
only the weights are fresh. Attention is a softmax of scores that end in a linear layer without bias, so weights with
that layer's sign changed are as likely as those that were drawn, and order all cells the other way round. The row is
the mean over a draw and its mirror images (the sign of Lambda's last layer, of Gamma's, of both): luck cancels out, and
what remains is the effect of the rules. In place of an interval, the lowest and the highest score of the four are kept.
(If direct control is information, the layer is Theta's last, whose mirror image does not quite reverse the order of all
cells.)

**Uniform** attention has equal weights everywhere; then g is made by the rules alone. (An even map has nothing above
chance, so all of it counts for g here.) All movers take over the same from the frame before, so scores over movers are
exactly .5.

**Change**: how much a cell changed in the last step. It uses no actions and needs no model.

**Seen**, the upper limit: maps that are right about every cell that shows anything but background. For a cell that
shows nothing, where only the alternative would have put something, they give how often it is controlled while it shows
nothing: a single frame has no more information, but a map may know where things tend to be.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from megareward.audit.learnt import LearntMaps, attended, followed
from megareward.audit.maps import Maps
from megareward.audit.scores import COMPARISONS, Estimate, Scores, compared, estimates, score
from megareward.audit.truth import Truth
from megareward.control.config import ControlConfig
from megareward.control.local_rtm import LocalRTM
from megareward.control.models import Attention, ControlModels
from megareward.types import Bool, Float, Tensor

MIRRORS = ((1.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0))
"""Factors of the last layers of Lambda and of Gamma."""


def controls(
    models: ControlModels,
    truth: Truth,
    seed: int = 0,
    seen: Truth | None = None,
    in_place: Callable[[list[Maps]], list[Maps]] = lambda maps: maps,
) -> dict[str, Scores]:
    """The reference rows for models like these; see the module. `seen`: the truth with the frames that the models see,
    if they differ (`as_seen`); `in_place` moves their maps to where the truth is, if that differs (`camera.Film`)."""
    config, seen, rho = models.config, seen or truth, models.config.latent.rho
    counts_all = replace(config, latent=replace(config.latent, above_chance=False))
    alike = fresh(models, counts_all, (0.0, 0.0), seed)
    uniform = followed(alike, [even(own) for own in attended(alike, seen)], seen)

    def to_score(maps: list[LearntMaps]) -> list[Maps]:
        return in_place([own.to_score(truth.lags) for own in maps])

    rows = {"uniform": to_score(uniform), "change": change_maps(truth), "seen": seen_maps(truth)}
    untrained = [compared(truth, to_score(maps), rho) for maps in mirror_images(models, seen, seed)]
    joint = estimates(untrained)
    singles = [estimates([{name: one[name] for name in COMPARISONS if name in one}]) for one in untrained]
    joint |= {name: _with_range([one[name] for one in singles], joint[name]) for name in singles[0]}
    return {"untrained": joint} | {name: score(truth, maps, rho) for name, maps in rows.items()}


def _with_range(singles: list[Any], joint: Any) -> Estimate:
    means = [one.mean for one in singles if one.mean is not None]
    return joint._replace(low=min(means), high=max(means)) if means else joint


def mirror_images(models: ControlModels, truth: Truth, seed: int = 0) -> list[list[LearntMaps]]:
    """The maps of a draw and its mirror images. Direct control and relation do not depend on each other, so the
    attention of all four follows from two of the models."""
    own = {sign: fresh(models, models.config, (sign, sign), seed) for sign in (1.0, -1.0)}
    found = {sign: attended(drawn, truth) for sign, drawn in own.items()}
    return [
        followed(own[1.0], [Attention(a.direct, b.relation) for a, b in zip(found[x], found[y], strict=True)], truth)
        for x, y in MIRRORS
    ]


def fresh(models: ControlModels, config: ControlConfig, signs: tuple[float, float], seed: int = 0) -> ControlModels:
    """Models with fresh weights and the given ones' statistics; `signs` multiply the last layers of the attention."""
    own = ControlModels(config, models.frame_shape, models.n_actions, models.device, seed)
    own.normaliser.copy_from(models.normaliser)
    own.background.copy_from(models.background)
    with torch.no_grad():
        own.adm.last.weight.mul_(signs[0])
        if isinstance(own.rtm, LocalRTM):  # there are no scores to multiply: drawings compete instead
            for weight in own.rtm.leave.parameters():
                weight.mul_(signs[1])
        else:
            *_, scores = own.rtm.gamma.parameters()
            scores.mul_(signs[1])
    return own


def even(attention: Attention) -> Attention:
    """The same direct control for all cells. (Scores of 0 give that anyway; information of 0 gives none.)"""
    return attention._replace(direct=torch.full_like(attention.direct, 1 / attention.direct.shape[-1]))


def change_maps(truth: Truth) -> list[Maps]:
    maps = []
    for episode in truth.episodes:
        changes = (episode.frames[1:].float() - episode.frames[:-1].float()).abs()
        per_cell = truth.grid.to_cells(changes).mean((-2, -1))  # (T, HW)
        change = torch.cat([torch.zeros_like(per_cell[:1]), per_cell])
        maps.append(Maps(change, change, change, change[:, None].expand(-1, truth.lags, -1)))
    return maps


def seen_maps(truth: Truth) -> list[Maps]:
    episodes, shows = truth.episodes, truth.visible()
    before = [torch.cat([torch.zeros_like(own[:1]), own[:-1]]) for own in shows]
    direct = known([episode.direct for episode in episodes], shows)
    g = known([episode.influence.any(1) for episode in episodes], shows)
    influence = known([episode.influence for episode in episodes], shows)
    relation = known([episode.sources for episode in episodes], before)
    return [Maps(*parts) for parts in zip(direct, g, g, influence, relation, strict=True)]


def known(true: list[Bool[Tensor, "_ ..."]], shows: list[Bool[Tensor, "_ HW"]]) -> list[Float[Tensor, "_ ..."]]:
    """The truth for cells (last axis) that show something; for others, its mean over the cell's empty frames."""
    values = torch.cat(true).float()
    seen = torch.cat(shows).reshape(len(values), *[1] * (values.ndim - 2), -1).expand_as(values)
    rate = values.masked_fill(seen, 0).sum(0) / (~seen).sum(0).clamp(min=1)
    return list(torch.where(seen, values, rate).split([len(own) for own in true]))


def hidden(truth: Truth) -> float:
    """The share of controlled cells that show nothing but background."""
    controlled = [episode.influence.any(1) for episode in truth.episodes]
    unseen = sum(int((cells & ~shows).sum()) for cells, shows in zip(controlled, truth.visible(), strict=True))
    return unseen / max(sum(int(cells.sum()) for cells in controlled), 1)
