"""How well a map agrees with the truth: AUROC, rank correlation, calibration, intervals over episodes.

A frame counts if the score is defined for it: AUROC needs a controlled and an uncontrolled cell, a correlation a truth
that varies. Scores are means over the frames that count; the bootstrap resamples episodes, as their frames are alike.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from megareward.audit.maps import Maps
from megareward.audit.truth import AuditedEpisode, Truth
from megareward.statistics.bootstrap import interval
from megareward.types import Bool, Float, Shaped, Tensor

BINS = 10


def auroc(
    learnt: Float[Tensor, "*B HW"], true: Bool[Tensor, "*B HW"], among: Bool[Tensor, "*#B HW"] | None = None
) -> Float[Tensor, "*B"]:
    """The chance that a truly controlled cell has a higher value than an uncontrolled one of the same frame; ties count
    half. If given, only cells `among` are compared. NaN for frames in which all of them are of one kind."""
    of_interest = torch.ones_like(true) if among is None else among.expand_as(true)
    high, low = true & of_interest, ~true & of_interest
    tells = high.any(-1) & low.any(-1)
    found = torch.full(true.shape[:-1], float("nan"), dtype=torch.float64)
    n_high, n_low = high[tells].sum(-1).double(), low[tells].sum(-1).double()
    of_high = torch.where(high[tells], ranks(learnt[tells], of_interest[tells]), 0.0).sum(-1)
    found[tells] = (of_high - n_high * (n_high + 1) / 2) / (n_high * n_low)  # Mann-Whitney's U as a share of all pairs
    return found


def spearman(learnt: Float[Tensor, "B HW"], true: Float[Tensor, "B HW"]) -> Float[Tensor, "B"]:
    """Rank correlation over the cells of each frame. A flat learnt map explains nothing: 0. NaN for a flat truth."""
    a, b = (own - own.mean(1, keepdim=True) for own in (ranks(learnt), ranks(true)))
    spread_a, spread_b = a.square().sum(1).sqrt(), b.square().sum(1).sqrt()
    together = (a * b).sum(1) / (spread_a * spread_b)
    return torch.where(spread_a == 0, 0.0, together).masked_fill(spread_b == 0, float("nan"))


def ranks(values: Float[Tensor, "B HW"], among: Bool[Tensor, "B HW"] | None = None) -> Float[Tensor, "B HW"]:
    """Ranks from 1 up; equal values share their mean rank. If given, only of cells `among`; others are meaningless."""
    ordered = (values if among is None else values.masked_fill(~among, float("inf"))).sort(-1).values
    below, up_to = (torch.searchsorted(ordered, values.contiguous(), right=right) for right in (False, True))
    return (below + up_to + 1).double() / 2


class Estimate(NamedTuple):
    """A mean over frames with its 95% interval over episodes; None if undefined."""

    mean: float | None
    low: float | None
    high: float | None
    frames: int
    """Frames that counted."""


def estimate(per_episode: Sequence[Float[Tensor, "_"]]) -> Estimate:
    """Mean of all numbers that are not NaN, with a bootstrap interval over the episodes that have any."""
    counted = [values[~values.isnan()] for values in per_episode]
    means = [float(values.mean()) for values in counted if len(values)]
    sizes = [len(values) for values in counted if len(values)]
    if not sizes:
        return Estimate(None, None, None, 0)
    mean = float(np.average(means, weights=sizes))
    low, high = interval(means, sizes) if len(sizes) > 1 else (None, None)  # a single episode has no spread
    return Estimate(mean, None if low is None else float(low), None if high is None else float(high), sum(sizes))


Scores = dict[str, Estimate | list[Estimate]]
"""By name: see `COMPARISONS` and, by lag at [n - 1], `BY_LAG`. Scores for which there is no map are left out."""


class Subject(NamedTuple):
    """One episode with all that comparisons need."""

    episode: AuditedEpisode
    movers: Bool[Tensor, "T_plus_1 HW"]
    shows: Bool[Tensor, "T_plus_1 HW"]
    """Cells that show anything but background."""
    rho: float

    @property
    def under_control(self) -> Bool[Tensor, "T_plus_1 HW"]:
        """Cells controlled by any of the actions that were followed."""
        return self.episode.influence.any(1)


def of_direct(own: Maps, about: Subject) -> Tensor | None:
    return None if own.direct is None else auroc(own.direct, about.episode.direct)


def of_shown_direct(own: Maps, about: Subject) -> Tensor | None:
    """AUROC of direct control among cells that show something; knowing the body's usual place does not help."""
    return None if own.direct is None else auroc(own.direct, about.episode.direct, about.shows)


def of_g(own: Maps, about: Subject) -> Tensor | None:
    """AUROC of g; positive are cells that any of the followed actions controls."""
    return None if own.g is None else auroc(own.g, about.under_control)


def of_ranks(own: Maps, about: Subject) -> Tensor | None:
    """Rank correlation of g with that of Eq. 9 from the true influence."""
    return None if own.g is None else spearman(own.g, about.episode.g(about.rho))


def of_lags(own: Maps, about: Subject) -> Tensor | None:
    return None if own.influence is None else auroc(own.influence, about.episode.influence)


def of_movers(own: Maps, about: Subject) -> Tensor | None:
    """AUROC of what movers were handed: those that move because of an earlier action against those that do not."""
    return None if own.handed_on is None else auroc(own.handed_on, about.under_control, about.movers)


def of_kept_movers(own: Maps, about: Subject) -> Tensor | None:
    """The same for g, with all that its cells kept; rules alone are not at chance here."""
    return None if own.g is None else auroc(own.g, about.under_control, about.movers)


def of_movers_lags(own: Maps, about: Subject) -> Tensor | None:
    if own.influence is None:
        return None
    return auroc(own.influence, about.episode.influence, about.movers[:, None])


def of_relation(own: Maps, about: Subject) -> Tensor | None:
    """AUROC of the relation for controlled movers: do they follow from cells that their control can have come from?
    Mean over the movers of a frame."""
    if own.relation is None:
        return None
    asked = (about.movers & about.under_control)[:, :, None]  # (T + 1, to, 1)
    per_cell = auroc(own.relation, about.episode.sources & asked)  # NaN for a cell that is not asked
    return per_cell.nanmean(1)


COMPARISONS: dict[str, Callable[[Maps, Subject], Tensor | None]] = {
    "direct_auroc": of_direct,
    "shown_direct_auroc": of_shown_direct,
    "g_auroc": of_g,
    "g_spearman": of_ranks,
    "movers_auroc": of_movers,
    "kept_movers_auroc": of_kept_movers,
    "relation_auroc": of_relation,
}
"""Each gives a number per frame; NaN for frames without a defined score, None without such a map."""
BY_LAG: dict[str, Callable[[Maps, Subject], Tensor | None]] = {
    "lag_auroc": of_lags,
    "movers_lag_auroc": of_movers_lags,
}
"""The same per frame and lag."""


Numbers = dict[str, list[Shaped[Tensor, "_ ..."]]]
"""By name and episode: a number per frame, or per frame and lag."""


def compared(truth: Truth, maps: Sequence[Maps], rho: float) -> Numbers:
    """Compare the maps of each episode in every frame but the first, which has no action before it."""
    subjects = [Subject(*parts, rho) for parts in zip(truth.episodes, truth.movers(), truth.visible(), strict=True)]
    found: Numbers = {}
    for name, compare in (COMPARISONS | BY_LAG).items():
        numbers = [compare(own, subject) for own, subject in zip(maps, subjects, strict=True)]
        if known := [each[1:] for each in numbers if each is not None]:
            found[name] = known
    return found


def estimates(numbers: Sequence[Numbers]) -> Scores:
    """The scores of one or several sets of maps; with several, a frame's score is their mean."""
    scores: Scores = {}
    for name in numbers[0]:
        joint = [torch.stack(each).mean(0) for each in zip(*(own[name] for own in numbers), strict=True)]
        if joint[0].ndim == 1:
            scores[name] = estimate(joint)
        else:
            scores[name] = [estimate([values[:, n] for values in joint]) for n in range(joint[0].shape[1])]
    return scores


def score(truth: Truth, maps: Sequence[Maps], rho: float) -> Scores:
    """How well the maps of each episode agree with the truth."""
    return estimates([compared(truth, maps, rho)])


def as_dict(scores: Scores) -> dict[str, Any]:
    """For JSON: estimates become {"mean", "low", "high", "frames"}."""
    return {
        name: [each._asdict() for each in found] if isinstance(found, list) else found._asdict()
        for name, found in scores.items()
    }


def in_short(scores: Scores) -> dict[str, Any]:
    """The same, with only the means of scores by lag."""
    return {
        name: [each.mean for each in found] if isinstance(found, list) else found._asdict()
        for name, found in scores.items()
    }


def handed_to_movers(truth: Truth, handed_on: Sequence[Float[Tensor, "_ HW"]]) -> dict[str, float | None]:
    """The share of all control handed to movers that goes to those truly under control; and their share of the movers,
    which is the score of maps that hand all movers the same. Every frame with a mover counts, also if all of them are
    of one kind, where AUROC is undefined."""
    movers = torch.cat(truth.movers())
    controlled = torch.cat([episode.influence.any(1) for episode in truth.episodes]) & movers
    handed = torch.cat(list(handed_on)).double() * movers

    def share(part: Tensor, whole: Tensor) -> float | None:
        return float(part.sum() / whole.sum()) if whole.sum() > 0 else None

    return {"true": share(handed * controlled, handed), "chance": share(controlled.double(), movers.double())}


def calibration(learnt: Float[Tensor, "B HW"], true: Bool[Tensor, "B HW"]) -> dict[str, Any]:
    """Share of controlled cells by bin of the map's value. `error`: mean distance between value and share."""
    values = learnt.double().flatten()
    which = (values * BINS).long().clamp(0, BINS - 1)
    cells = torch.bincount(which, minlength=BINS)
    said = torch.bincount(which, values, BINS) / cells
    were = torch.bincount(which, true.double().flatten(), BINS) / cells
    error = (cells * (said - were).abs()).nansum() / cells.sum()
    rows = zip(cells.tolist(), said.tolist(), were.tolist(), strict=True)
    return {"error": float(error), "bins": [{"cells": n, "said": s, "controlled": w} for n, s, w in rows if n]}
