"""What scores mean: those of models that have learnt nothing, of rules without a model, and of all that can be seen.

**Untrained** models have the settings of the audited ones, their rules, and their statistics of pixels and background;
only the weights are fresh. Attention is a softmax of scores that end in a linear layer without bias, so weights with
that layer's sign changed are as likely as those that were drawn, and order all cells the other way round. The row is
the mean over a draw and its mirror images (the sign of Lambda's last layer, of Gamma's, of both): what luck gives to
one of them it takes from another, and what is left is what the rules know.

**Uniform** attention looks everywhere alike; then g is made by rules alone. (Of what exceeds an even map nothing would
be left, so g counts all of it here.) All that moved takes over the same from the frame before, so scores over movers
are .5, exactly.

**Seen**: maps that are right about every cell that shows something, anything but background, and know nothing about
those where only the alternative would have put something. This is no strict bound: a map can also know where things
tend to be.
"""

from dataclasses import replace

import torch

from megareward.audit.learnt import learnt_maps
from megareward.audit.maps import Maps
from megareward.audit.scores import Scores, score
from megareward.audit.truth import Truth
from megareward.control.config import ControlConfig
from megareward.control.models import ControlModels
from megareward.types import Bool, Float, Tensor

MIRRORS = ((1.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0))
"""What the last layers of Lambda and of Gamma are multiplied with."""


def controls(models: ControlModels, truth: Truth, seed: int = 0) -> dict[str, Scores]:
    """The three rows for maps made by models like these; see the module."""
    config = models.config
    counts_all = replace(config, latent=replace(config.latent, above_chance=False))
    rows = {
        "untrained": [to_score(fresh(models, config, signs, seed), truth) for signs in MIRRORS],
        "uniform": [to_score(fresh(models, counts_all, (0.0, 0.0), seed), truth)],
        "seen": [seen_maps(truth, config.latent.rho)],
    }
    return {name: score(truth, maps, config.latent.rho) for name, maps in rows.items()}


def to_score(models: ControlModels, truth: Truth) -> list[Maps]:
    return [own.to_score(truth.lags) for own in learnt_maps(models, truth)]


def fresh(models: ControlModels, config: ControlConfig, signs: tuple[float, float], seed: int = 0) -> ControlModels:
    """Models with fresh weights and the given ones' statistics; `signs` multiply the last layers of the attention."""
    own = ControlModels(config, models.frame_shape, models.n_actions, models.device, seed)
    own.normaliser.copy_from(models.normaliser)
    own.background.copy_from(models.background)
    with torch.no_grad():
        for network, sign in zip((own.adm.lambda_, own.rtm.gamma), signs, strict=True):
            *_, last = network.parameters()  # the layer whose outputs are the scores
            last.mul_(sign)
    return own


def seen_maps(truth: Truth, rho: float) -> list[Maps]:
    """The truth about all that shows something; g remembers it as the tracker's does."""
    maps = []
    for episode, shows in zip(truth.episodes, truth.visible(), strict=True):
        under_control = episode.influence.any(1) & shows
        before = torch.cat([torch.zeros_like(shows[:1]), shows[:-1]])
        maps.append(
            Maps(
                direct=(episode.direct & shows).float(),
                g=remembered(under_control, rho),
                handed_on=under_control.float(),
                influence=(episode.influence & shows[:, None]).float(),
                relation=(episode.sources & before[:, None]).float(),
            )
        )
    return maps


def remembered(cells: Bool[Tensor, "B HW"], rho: float) -> Float[Tensor, "B HW"]:
    """1 where a cell was named, less with every frame since then."""
    memory, maps = torch.zeros(cells.shape[1]), []
    for named in cells.float():
        memory = torch.maximum(rho * memory, named)
        maps.append(memory)
    return torch.stack(maps)


def hidden(truth: Truth) -> float:
    """The share of controlled cells that show nothing but background."""
    controlled = [episode.influence.any(1) for episode in truth.episodes]
    unseen = sum(int((cells & ~shows).sum()) for cells, shows in zip(controlled, truth.visible(), strict=True))
    return unseen / max(sum(int(cells.sum()) for cells in controlled), 1)
