"""How well a learnt map agrees with the truth: AUROC, rank correlation, calibration, intervals over episodes.

A frame counts if it can tell: AUROC needs a controlled and an uncontrolled cell, a correlation a truth that varies.
Scores are means over the frames that count; episodes are what is resampled, as frames of one episode are alike.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from megareward.audit.learnt import LearntMaps
from megareward.audit.truth import Truth
from megareward.types import Bool, Float, Tensor

RESAMPLES = 2000
BINS = 10


def auroc(learnt: Float[Tensor, "B HW"], true: Bool[Tensor, "B HW"]) -> Float[Tensor, "B"]:
    """The chance that a truly controlled cell has a higher value than another one of the same frame; ties count half.
    NaN where all cells are of one kind."""
    low = below(learnt)  # (B, HW, HW): at [i, j], how far cell j is below cell i
    pairs = (true[:, :, None] & ~true[:, None, :]).double()
    return (low * pairs).sum((1, 2)) / pairs.sum((1, 2))


def spearman(learnt: Float[Tensor, "B HW"], true: Float[Tensor, "B HW"]) -> Float[Tensor, "B"]:
    """Rank correlation over the cells of each frame. A flat learnt map explains nothing: 0. NaN for a flat truth."""
    a, b = (below(values).sum(2) for values in (learnt, true))  # ranks, ties shared
    a, b = (ranks - ranks.mean(1, keepdim=True) for ranks in (a, b))
    spread_a, spread_b = a.square().sum(1).sqrt(), b.square().sum(1).sqrt()
    together = (a * b).sum(1) / (spread_a * spread_b)
    return torch.where(spread_a == 0, 0.0, together).masked_fill(spread_b == 0, float("nan"))


def below(values: Float[Tensor, "B HW"]) -> Float[Tensor, "B HW HW"]:
    """At [i, j]: 1 if value j is below value i, 1/2 if they are equal."""
    return (values[:, :, None] - values[:, None, :]).sign().double() / 2 + 0.5


class Estimate(NamedTuple):
    """A mean over frames with its 95% interval over episodes; None where nothing can be said."""

    mean: float | None
    low: float | None
    high: float | None
    frames: int
    """Frames that counted."""


def estimate(per_episode: list[Float[Tensor, "B"]], seed: int = 0) -> Estimate:
    """Mean of all numbers that are not NaN; percentile bootstrap over the episodes."""
    counted = [values[~values.isnan()] for values in per_episode]
    counted = [values for values in counted if len(values)]
    sums = np.array([float(values.sum()) for values in counted])
    sizes = np.array([len(values) for values in counted])
    if not counted:
        return Estimate(None, None, None, 0)
    mean, frames = float(sums.sum() / sizes.sum()), int(sizes.sum())
    if len(counted) == 1:  # one episode says nothing about others
        return Estimate(mean, None, None, frames)
    drawn = np.random.default_rng(seed).integers(len(counted), size=(RESAMPLES, len(counted)))
    means = sums[drawn].sum(1) / sizes[drawn].sum(1)
    low, high = np.percentile(means, [2.5, 97.5])
    return Estimate(mean, float(low), float(high), frames)


def calibration(learnt: Float[Tensor, "B HW"], true: Bool[Tensor, "B HW"]) -> dict[str, Any]:
    """Of the cells given about this value, how many were controlled? `error` is the mean distance between the two."""
    values = learnt.double().flatten()
    which = (values * BINS).long().clamp(0, BINS - 1)
    cells = torch.bincount(which, minlength=BINS)
    said = torch.bincount(which, values, BINS) / cells
    were = torch.bincount(which, true.double().flatten(), BINS) / cells
    error = (cells * (said - were).abs()).nansum() / cells.sum()
    rows = zip(cells.tolist(), said.tolist(), were.tolist(), strict=True)
    return {"error": float(error), "bins": [{"cells": n, "said": s, "controlled": w} for n, s, w in rows if n]}


@dataclass(frozen=True)
class Scores:
    """How the learnt maps of one checkpoint compare with the truth."""

    direct_auroc: Estimate
    g_auroc: Estimate
    """Positive: a cell that any action of the last `lags` steps controls."""
    g_spearman: Estimate
    """Against g by Eq. 9 with the true influence."""
    seen_auroc: Estimate
    """What g could score: a map that is right about every cell which shows something, and remembers as g does. Half of
    what is controlled may look like background, because only the alternative would have put something there."""
    hidden: float
    """The share of controlled cells that show nothing but background."""
    lag_auroc: list[Estimate]
    """Relation-propagated influence (Eq. 5) of the action n steps ago, at [n - 1]."""
    direct_calibration: dict[str, Any]
    g_calibration: dict[str, Any]
    """g divided by its bound, 1 with clip and 1 / (1 - rho) without."""
    self_attention: float
    """Mean of the relation's diagonal."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON: estimates become {"mean", "low", "high", "frames"}."""

        def plain(value: Any) -> Any:
            if isinstance(value, Estimate):
                return value._asdict()
            return [plain(item) for item in value] if isinstance(value, list) else value

        return {name: plain(value) for name, value in vars(self).items()}


def remembered(cells: Bool[Tensor, "B HW"], rho: float) -> Float[Tensor, "B HW"]:
    """1 where a cell was named, less with every frame since then."""
    memory, maps = torch.zeros(cells.shape[1]), []
    for named in cells.float():
        memory = torch.maximum(rho * memory, named)
        maps.append(memory)
    return torch.stack(maps)


def score(truth: Truth, maps: list[LearntMaps], rho: float, clip: bool) -> Scores:
    """Compare every map of every frame but the first, which shows nothing yet."""
    episodes = list(zip(truth.episodes, maps, strict=True))

    def over_episodes(score_of: Callable[..., Tensor]) -> Estimate:
        return estimate([score_of(episode, own) for episode, own in episodes])

    chained = [own.influence(truth.lags) for own in maps]
    lags = [
        estimate([auroc(c[n:, n - 1], e.influence[n:, n - 1]) for e, c in zip(truth.episodes, chained, strict=True)])
        for n in range(1, truth.lags + 1)
    ]
    bound = 1.0 if clip else 1 / (1 - rho)
    under_control = [episode.influence.any(1) for episode in truth.episodes]
    seen = [cells & shows for cells, shows in zip(under_control, truth.visible(), strict=True)]
    n_controlled = sum(int(cells.sum()) for cells in under_control)
    unseen = n_controlled - sum(int(cells.sum()) for cells in seen)
    return Scores(
        direct_auroc=over_episodes(lambda e, own: auroc(own.direct[1:], e.direct[1:])),
        g_auroc=over_episodes(lambda e, own: auroc(own.g[1:], e.influence.any(1)[1:])),
        g_spearman=over_episodes(lambda e, own: spearman(own.g[1:], e.g(rho)[1:])),
        seen_auroc=estimate(
            [auroc(remembered(s, rho)[1:], cells[1:]) for s, cells in zip(seen, under_control, strict=True)]
        ),
        hidden=unseen / max(n_controlled, 1),
        lag_auroc=lags,
        direct_calibration=calibration(
            torch.cat([own.direct[1:] for own in maps]), torch.cat([e.direct[1:] for e in truth.episodes])
        ),
        g_calibration=calibration(
            torch.cat([own.g[1:] / bound for own in maps]), torch.cat([cells[1:] for cells in under_control])
        ),
        self_attention=float(torch.cat([own.relation[1:] for own in maps]).diagonal(dim1=1, dim2=2).mean()),
    )
