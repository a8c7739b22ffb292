"""Relations: the relational transition model (RTM), Eq. 6-8 and the two tables of the appendix.

RTM draws every cell of the new frame as a weighted sum of guesses, one from each cell of the frame before. The weights
say which old cell the new one follows from; that is the relation along which control is passed on.

The paper forwards all N * HW * HW pairs (to, from) on their own. But a pair's three inputs meet only in a product,

    code of cell `from`  *  code of the action  *  code of the offset `to - from`,

so each cell is encoded once, each offset once, and pairs begin at the product. BatchNorm in the encoder sees every cell
once instead of HW times: the same mean and variance. (Only the n / (n - 1) of the running variance differs: n counts
cells here, pairs in the paper's form.)
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from megareward.control.config import Attention, RtmConfig
from megareward.control.grid import Grid
from megareward.control.layers import Decoder, Encoder, Fusable, NormLeaky, full_precision
from megareward.control.pairs import (
    Pairs,
    all_pairs,
    attended_pairs,
    blend,
    pair_product,
    pairs_towards,
    source_errors,
)
from megareward.control.sparsemax import ATTENTIONS
from megareward.types import Float, Int, Tensor


class RtmOutput(NamedTuple):
    scores: Float[Tensor, "N HW HW"]
    """alpha-bar[to, from] of Eq. 7."""
    relation: Float[Tensor, "N HW HW"]
    """alpha(s_t, s_{t-1})[to, from] of Eq. 8; every row sums to 1 over `from`."""
    drawn: Float[Tensor, "M pixels"]
    """What each source drew, one row per pair; before tanh and scale."""
    pairs: Pairs
    targets: Int[Tensor, "N K"] | None
    """The cells that were drawn, if not all."""


class Interaction(Fusable):
    """The upper half of both tables: three codes of equal size, multiplied ("dot-multiply")."""

    offset_one_hot: Tensor

    def __init__(self, grid: Grid, config: RtmConfig, n_actions: int) -> None:
        super().__init__()
        self.encoder = Encoder(grid, config.stack, config.channels, config.features)
        self.action = nn.Linear(n_actions, config.features)
        self.offset = nn.Linear(grid.n_offsets, config.features)
        one_hot = F.one_hot(grid.offsets(), grid.n_offsets).float()  # (to, from, n_offsets)
        self.register_buffer("offset_one_hot", one_hot, persistent=False)

    def source_codes(self, source: Float[Tensor, "N HW n_in"], actions: Int[Tensor, "N"]) -> Float[Tensor, "N HW F"]:
        """Code of every source cell times the code of the action: all of the product that does not depend on `to`."""
        N, HW, _ = source.shape
        cells = self.encoder(source.flatten(0, 1)).reshape(N, HW, -1)
        one_hot = F.one_hot(actions.long(), self.action.in_features).to(self.action.weight.dtype)
        return cells * self.action(one_hot)[:, None].to(cells.dtype)

    def offset_codes(self, dtype: torch.dtype) -> Float[Tensor, "to from F"]:
        return self.offset(self.offset_one_hot).to(dtype)

    def forward(
        self,
        source: Float[Tensor, "N HW n_in"],
        actions: Int[Tensor, "N"],
        pairs: Pairs,
        seen: Float[Tensor, "N HW F"] | None = None,
    ) -> Float[Tensor, "M F"]:
        """One row per pair. `seen`, a code of every cell `to`, joins the product if given."""
        codes = self.source_codes(source, actions)
        return pair_product(codes, self.offset_codes(codes.dtype), pairs, fused=self.fused, seen=seen)


class Phi(nn.Module):
    """Table of Phi: predicts what cell `to` looks like now from cell `from` a step ago."""

    def __init__(self, grid: Grid, config: RtmConfig, n_actions: int) -> None:
        super().__init__()
        self.interaction = Interaction(grid, config, n_actions)
        self.decoder = Decoder(grid, config.features, config.channels)

    def forward(
        self, source: Float[Tensor, "N HW n_in"], actions: Int[Tensor, "N"], pairs: Pairs
    ) -> Float[Tensor, "M pixels"]:
        """One row per pair; the tanh of the table is still to be taken (`blend` does)."""
        return self.decoder(self.interaction(source, actions, pairs))


class Gamma(nn.Module):
    """Table of Gamma: how much cell `to` should rely on cell `from`."""

    def __init__(self, grid: Grid, config: RtmConfig, n_actions: int) -> None:
        super().__init__()
        self.interaction = Interaction(grid, config, n_actions)
        self.target = Encoder(grid, 1, config.channels, config.features) if config.gamma_sees_target else None
        self.head = nn.Sequential(
            nn.Linear(config.features, config.gamma_features, bias=False),
            NormLeaky(config.gamma_features),
            nn.Tanh(),
            nn.Linear(config.gamma_features, 1, bias=False),  # attention ignores a constant in all scores
        )

    def forward(
        self,
        source: Float[Tensor, "N HW n_in"],
        actions: Int[Tensor, "N"],
        target: Float[Tensor, "N HW pixels"] | None = None,
    ) -> Float[Tensor, "N HW HW"]:
        """Eq. 7: the scores alpha-bar[to, from]. `target` is used only where Gamma was built to see it."""
        N, HW, _ = source.shape
        seen = None
        if self.target is not None:
            if target is None:
                raise ValueError("target is None, but this Gamma sees it (rtm.gamma_sees_target): pass the new cells.")
            seen = self.target(target.flatten(0, 1)).reshape(N, HW, -1)  # (N, to, F)
        product = self.interaction(source, actions, all_pairs(N, HW), seen)  # (N * to * from, F)
        return full_precision(self.head(product)).reshape(N, HW, HW)


class RTM(Fusable):
    def __init__(self, grid: Grid, config: RtmConfig, n_actions: int) -> None:
        super().__init__()
        self.config = config
        self.phi, self.gamma = Phi(grid, config, n_actions), Gamma(grid, config, n_actions)

    @property
    def skips_pairs(self) -> bool:
        """Whether Phi leaves out pairs without attention: softmax has none, and other losses need all sources."""
        c = self.config
        return c.phi_pairs == "attended" and c.attention != "softmax" and c.loss == "blend" and not c.source_loss

    def attend(
        self,
        source: Float[Tensor, "N HW n_in"],
        actions: Int[Tensor, "N"],
        target: Float[Tensor, "N HW pixels"] | None = None,
    ) -> Float[Tensor, "N HW HW"]:
        """Eq. 7-8: the relation [to, from]. Phi is not needed for it."""
        return ATTENTIONS[self.config.attention](self.gamma(source, actions, target))

    def forward(
        self,
        source: Float[Tensor, "N HW n_in"],
        actions: Int[Tensor, "N"],
        target: Float[Tensor, "N HW pixels"] | None = None,
        targets: Int[Tensor, "N K"] | None = None,
    ) -> RtmOutput:
        """Eq. 7-8 and the drawings of Eq. 6: of all cells, or of the chosen `targets` (in ascending order) only."""
        scores = self.gamma(source, actions, target)
        relation = ATTENTIONS[self.config.attention](scores)
        N, HW, _ = relation.shape
        if targets is not None:
            pairs = pairs_towards(targets, HW)
        else:
            pairs = attended_pairs(relation) if self.skips_pairs else all_pairs(N, HW)
        return RtmOutput(scores, relation, self.phi(source, actions, pairs), pairs, targets)

    def predict(self, output: RtmOutput, scale: Float[Tensor, ""] | float = 1.0) -> Float[Tensor, "N HW pixels"]:
        """Eq. 6: every cell as the weighted sum of what its sources drew; zero where it was not drawn.

        `scale` is the range of the observation: Phi's tanh draws pixels in [-scale, scale].
        """
        return scale * blend(output.drawn, output.relation, output.pairs, fused=self.fused)

    def losses(
        self, output: RtmOutput, target: Float[Tensor, "N HW pixels"], scale: Float[Tensor, ""] | float = 1.0
    ) -> dict[str, Float[Tensor, ""]]:
        """L_transition in the form that the config asks for and, if weighted, the error of each source alone."""
        config, pixels = self.config, target.shape[-1]
        losses: dict[str, Tensor] = {}
        if config.loss == "blend":
            prediction = drawn_rows(self.predict(output, scale), output.targets)
            losses["transition"] = F.mse_loss(prediction, drawn_rows(target, output.targets))
        if config.loss == "mixture" or config.source_loss:
            errors = self.source_errors(output, target, scale)
        if config.loss == "mixture":
            log_weights = drawn_rows(log_attention(output.scores, config.attention), output.targets)
            losses["transition"] = -torch.logsumexp(log_weights - errors / 2, -1).mean() / pixels
        if config.source_loss:
            losses["source"] = config.source_loss * errors.mean() / pixels
        return losses

    def source_errors(
        self, output: RtmOutput, target: Float[Tensor, "N HW pixels"], scale: Float[Tensor, ""] | float
    ) -> Float[Tensor, "N K HW"]:
        """The error of each source's own drawing of each drawn cell: squared, summed over its pixels."""
        return source_errors(output.drawn, drawn_rows(target, output.targets), scale, fused=self.fused)


def drawn_rows(per_cell: Float[Tensor, "N HW X"], targets: Int[Tensor, "N K"] | None) -> Float[Tensor, "N K X"]:
    """The rows of the cells that were drawn."""
    if targets is None:
        return per_cell
    return per_cell.gather(1, targets[:, :, None].expand(-1, -1, per_cell.shape[-1]))


def log_attention(scores: Float[Tensor, "*B n"], attention: Attention) -> Float[Tensor, "*B n"]:
    """The logarithm of the attention; where that is exactly zero, a very small number instead of none."""
    if attention == "softmax":
        return scores.log_softmax(-1)
    return ATTENTIONS[attention](scores).clamp(min=1e-9).log()
