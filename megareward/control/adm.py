"""Direct control: the attentive dynamics model (ADM), Eq. 1-4.

ADM guesses the last action from two frames. It may look at a few cells only, and the cells worth looking at are the
ones that the action controls.

But attention tends to settle on one cell: of a body that lies on several, one is enough. With `direct` "information"
every cell predicts the action on its own, and its direct control is the information in that prediction.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from megareward.control.config import AdmConfig
from megareward.control.grid import Grid
from megareward.control.layers import Encoder, NormLeaky, full_precision
from megareward.control.sparsemax import ATTENTIONS
from megareward.types import Float, Int, Tensor


class AdmOutput(NamedTuple):
    cell_logits: Float[Tensor, "N HW A"]
    """e_t of Eq. 1: logits of the action, predicted from each cell alone."""
    direct: Float[Tensor, "N HW"]
    """alpha(s_t, a_{t-1}) of Eq. 3: direct control; sums to 1 over the cells (`information`: to at most 1)."""
    logits: Float[Tensor, "N A"]
    """The argument of the softmax in Eq. 4."""


class CellNetwork(nn.Module):
    """A network applied to every cell alike; it may know which cell it is at."""

    def __init__(self, grid: Grid, config: AdmConfig, c_in: int, n_out: int, bias: bool) -> None:
        super().__init__()
        self.encoder = Encoder(grid, c_in, config.channels, config.features)
        self.place = nn.Linear(grid.n_cells, config.features) if config.place else None
        self.head = nn.Sequential(
            nn.Linear(config.features, config.hidden, bias=False),
            NormLeaky(config.hidden),
            nn.Linear(config.hidden, n_out, bias=bias),
        )

    def forward(self, cells: Float[Tensor, "N HW n_in"]) -> Float[Tensor, "N HW n_out"]:
        N, HW, _ = cells.shape
        code = self.encoder(cells.flatten(0, 1))  # (N * HW, F)
        if self.place is not None:
            one_hot = torch.eye(HW, device=cells.device, dtype=self.place.weight.dtype)
            code = code * self.place(one_hot).repeat(N, 1).to(code.dtype)  # row n * HW + i belongs to cell i
        return full_precision(self.head(code)).reshape(N, HW, -1)


class Theta(CellNetwork):
    """Eq. 1: e_t^{h,w} = Theta([s_t - s_{t-1}; s_t]), the logits of the action according to one cell."""

    def __init__(self, grid: Grid, config: AdmConfig, n_actions: int) -> None:
        super().__init__(grid, config, c_in=2, n_out=n_actions, bias=True)


class Lambda(CellNetwork):
    """Eq. 2: the attention score of one cell, Lambda(s_t)."""

    def __init__(self, grid: Grid, config: AdmConfig) -> None:
        super().__init__(grid, config, c_in=1, n_out=1, bias=False)  # attention ignores a constant in all scores


READABLE = 0.1
"""Information about the action that all cells together must carry for direct control to sum to 1, as a share of log A,
its maximum (all actions equally likely). Below it, as in a frozen game, direct control sums to less than 1."""
USUAL_RATE = 0.01
"""Rate of the running mean `usual`, per gradient step."""


class ADM(nn.Module):
    usual: Tensor

    def __init__(self, grid: Grid, config: AdmConfig, n_actions: int) -> None:
        super().__init__()
        self.config = config
        self.theta = Theta(grid, config, n_actions)
        self.lambda_ = Lambda(grid, config) if config.direct == "attention" else None
        if self.lambda_ is None:
            self.register_buffer("usual", torch.full((grid.n_cells, n_actions), 1 / n_actions))
            """(HW, A): the running mean of each cell's predicted action probabilities."""

    @property
    def last(self) -> nn.Linear:
        """The last layer of the network behind direct control: it outputs Lambda's scores or Theta's logits."""
        layer = (self.lambda_ or self.theta).head[-1]
        assert isinstance(layer, nn.Linear)
        return layer

    def attend(self, before: Float[Tensor, "N HW pixels"], now: Float[Tensor, "N HW pixels"]) -> Float[Tensor, "N HW"]:
        """Direct control, from the cells of two consecutive frames. Eq. 2-3 use only the new one."""
        if self.lambda_ is None:
            return self.information(self.theta(change_and_now(before, now)))
        return ATTENTIONS[self.config.attention](self.lambda_(now).squeeze(-1))

    def information(self, cell_logits: Float[Tensor, "N HW A"]) -> Float[Tensor, "N HW"]:
        """Each cell's information about the action, as a share of the sum over all cells.

        A cell's prediction p is compared with its usual one: KL(p | usual) is the information in what it shows now, and
        its mean over time is the mutual information of the action and what the cell shows. Without `usual`, a cell
        that shows nothing but predicts a little unevenly would seem to carry information.
        """
        log_p = cell_logits.log_softmax(-1)
        told = (log_p.exp() * (log_p - self.usual.clamp(min=1e-6).log())).sum(-1)  # (N, HW) in nats
        return told / told.sum(-1, keepdim=True).clamp(min=READABLE * math.log(max(cell_logits.shape[-1], 2)))

    def forward(self, before: Float[Tensor, "N HW pixels"], now: Float[Tensor, "N HW pixels"]) -> AdmOutput:
        """Eq. 1-4, from the cells of two consecutive frames."""
        cell_logits = self.theta(change_and_now(before, now))  # (N, HW, A)
        if self.lambda_ is not None:
            direct = self.attend(before, now)  # (N, HW)
        else:
            with torch.no_grad():
                if self.training:
                    self.usual.lerp_(cell_logits.softmax(-1).mean(0), USUAL_RATE)
                direct = self.information(cell_logits)
        return AdmOutput(cell_logits, direct, torch.einsum("ni,nia->na", direct, cell_logits))

    def losses(
        self, output: AdmOutput, actions: Int[Tensor, "N"], log_policy: Float[Tensor, "N A"] | None = None
    ) -> dict[str, Float[Tensor, ""]]:
        """Cross-entropy of the action and, where their weight is not zero, the two terms of Choi et al. (2019).
        With `direct` "information" there is only their loss per cell.

        With `log_policy` the prediction is Bayes' rule: P(a | s, s') is proportional to policy(a | s) * P(s' | s, a),
        and the logits of Eq. 4 model the last factor, the effect. Without it, a cell that shows *why* the agent
        acted (the ball it runs after) is as good a clue as the cell that shows what the action did.
        """
        prior = torch.zeros_like(output.logits) if log_policy is None else log_policy
        losses = {}
        if self.lambda_ is not None:
            losses["action"] = F.cross_entropy(output.logits + prior, actions)
        if self.config.cell_loss:
            n_cells = output.direct.shape[1]
            of_cells = (output.cell_logits + prior[:, None]).flatten(0, 1)
            mean_of_cells = F.cross_entropy(of_cells, actions.repeat_interleave(n_cells))
            losses["cell"] = self.config.cell_loss * n_cells * mean_of_cells
        if self.config.entropy_loss and self.lambda_ is not None:
            losses["entropy"] = -self.config.entropy_loss * entropy(output.direct).mean()
        return losses


def change_and_now(
    before: Float[Tensor, "N HW pixels"], now: Float[Tensor, "N HW pixels"]
) -> Float[Tensor, "N HW n_in"]:
    """[s_t - s_{t-1}; s_t] of every cell: the input of Theta."""
    return torch.stack([now - before, now], -1).flatten(2)


def entropy(p: Float[Tensor, "*B n"]) -> Float[Tensor, "*B"]:
    """In nats, with 0 log 0 = 0; its gradient at p = 0 is cut off rather than infinite."""
    return -torch.where(p > 0, p * p.clamp(min=1e-12).log(), torch.zeros_like(p)).sum(-1)
