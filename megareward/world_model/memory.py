"""M predicts what comes next from all that was seen and done: an LSTM with a mixture density head and one for ends."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from megareward.types import Bool, Float, Int, Tensor

LEAST_LOG_STD = -5.0
"""A sharper prediction would make the loss of one surprise infinite."""


class Mixture(NamedTuple):
    """For every number of the next code a mixture of K normal distributions."""

    log_weight: Float[Tensor, "B z K"]
    mean: Float[Tensor, "B z K"]
    log_std: Float[Tensor, "B z K"]

    def log_prob(self, z: Float[Tensor, "B z"]) -> Float[Tensor, "B"]:
        away = (z[..., None] - self.mean) / self.log_std.exp()
        each = self.log_weight - 0.5 * away.square() - self.log_std - 0.5 * math.log(2 * math.pi)
        return each.logsumexp(-1).sum(-1)

    def expected(self) -> Float[Tensor, "B z"]:
        return (self.log_weight.exp() * self.mean).sum(-1)

    def sample(self, generator: torch.Generator, temperature: float = 1.0) -> Float[Tensor, "B z"]:
        """A sample; a temperature above 1 makes dreams wilder than the game (source)."""
        weights = (self.log_weight / temperature).softmax(-1)
        kind = torch.multinomial(weights.flatten(0, 1), 1, generator=generator).view(*weights.shape[:2], 1)
        mean, log_std = (x.gather(-1, kind)[..., 0] for x in (self.mean, self.log_std))
        noise = torch.empty_like(mean).normal_(generator=generator)
        return mean + noise * log_std.exp() * math.sqrt(temperature)


class Memory(nn.Module):
    """The state (h, c) sums up codes and actions so far; from h follow the next code and whether the game ends."""

    def __init__(self, z: int, n_actions: int, hidden: int, mixtures: int) -> None:
        super().__init__()
        self.n_actions, self.mixtures = n_actions, mixtures
        self.cell = nn.LSTMCell(z + n_actions, hidden)
        self.head = nn.Linear(hidden, 3 * mixtures * z)
        self.end = nn.Linear(hidden, 1)

    def advance(
        self,
        z: Float[Tensor, "B z"],
        actions: Int[Tensor, "B"],
        state: tuple[Float[Tensor, "B hidden"], Float[Tensor, "B hidden"]],
    ) -> tuple[Float[Tensor, "B hidden"], Float[Tensor, "B hidden"]]:
        """The state after this action in the frame of this code."""
        one_hot = (actions[:, None] == torch.arange(self.n_actions, device=z.device)).to(z.dtype)
        state = self.cell(torch.cat([z, one_hot], 1), state)
        return state

    def foresee(self, h: Float[Tensor, "B hidden"], z: Float[Tensor, "B z"]) -> tuple[Mixture, Float[Tensor, "B"]]:
        """The next code, as a change of the present one `z`, and the logit of an end of the game."""
        log_weight, mean, log_std = self.head(h).view(len(h), -1, self.mixtures, 3).unbind(-1)
        mixture = Mixture(log_weight.log_softmax(-1), z[..., None] + mean, log_std.clamp(LEAST_LOG_STD, 3))
        return mixture, self.end(h)[:, 0]


def memory_loss(
    memory: Memory,
    z: Float[Tensor, "T_plus_1 N z"],
    actions: Int[Tensor, "T N"],
    first: Bool[Tensor, "T_plus_1 N"],
    ends: Bool[Tensor, "T_plus_1 N"],
    state: tuple[Float[Tensor, "N hidden"], Float[Tensor, "N hidden"]],
) -> dict[str, Float[Tensor, ""]]:
    """-log p of the next code, and the cross-entropy of the end, over the real transitions of a rollout. `state`: M's
    before frame 0; it is reset to 0 at an episode's first frame."""
    of_code, of_end, copied = [], [], []
    for t in range(len(actions)):
        fresh = first[t][:, None]
        state = (state[0].masked_fill(fresh, 0.0), state[1].masked_fill(fresh, 0.0))
        state = memory.advance(z[t], actions[t], state)
        mixture, end = memory.foresee(state[0], z[t])
        of_code.append(-mixture.log_prob(z[t + 1]))
        of_end.append(F.binary_cross_entropy_with_logits(end, ends[t + 1].float(), reduction="none"))
        copied.append((mixture.expected() - z[t + 1]).square().mean(-1) - (z[t] - z[t + 1]).square().mean(-1))
    real = (~first[1:]).float()
    code, end_, gain = ((torch.stack(x) * real).sum() / real.sum().clamp(min=1) for x in (of_code, of_end, copied))
    return {"code": code, "end": end_, "against_copy": gain.detach(), "total": code + end_}
