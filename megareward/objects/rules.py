"""Effect rules in the manner of DOORMAX (Diuk et al. 2008): how far an action moves an object, under which condition.

A rule says: a thing of class c, under action a, moves by e along an axis if its condition holds: for every bit either
0, 1, or that it does not matter. As in DOORMAX a condition begins as what was first seen and loses the bits that turn
out not to matter; "no move" is an effect like the others, whose conditions are the failure conditions. Unlike DOORMAX
the rules are counts and bear some noise: see [oomdp-2] and [oomdp-3] in docs/objects.md.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch

from megareward.objects.conditions import NAMES
from megareward.objects.vision import Boxes
from megareward.state import State
from megareward.types import Bool, Float, Int, Tensor

SHADES, SIZES = 8, (8, 32, 128)
N_CLASSES = SHADES * (len(SIZES) + 1)
"""A class is a shade of grey and a size: below 8, 32, 128 pixels, or more."""
FARTHEST = 12
"""Most pixels of a move along one axis; a thing that moved farther was not followed well."""
N_EFFECTS = 2 * FARTHEST + 1
NOISE = 0.1
"""A bit's value excludes an effect that comes with it less than a tenth as often as it comes at all."""
PRECISION = 0.9
"""Where several rules apply, one predicts only if it has this share of what they have seen (baseline sheet)."""
LEAST_SEEN = 3
"""Times an effect must have been seen to be predicted."""


class Prediction(NamedTuple):
    """Of M things, for every action."""

    moves: Int[Tensor, "M A 2"]
    """0 where it is not known."""
    known: Bool[Tensor, "M A 2"]


def classes_of(boxes: Boxes) -> Int[Tensor, "N S"]:
    """-1 for an empty slot."""
    size = sum((boxes.area >= limit).long() for limit in SIZES)
    return torch.where(boxes.present, boxes.level * SHADES // 256 * (len(SIZES) + 1) + size, -1)


class Rules:
    def __init__(self, n_actions: int, device: torch.device) -> None:
        shape = (N_CLASSES, n_actions, 2, N_EFFECTS, len(NAMES), 2)
        self.counts = torch.zeros(shape, dtype=torch.int32, device=device)
        """How often each effect was seen with each bit at 0 and at 1, by class, action and axis."""
        self.allows = torch.zeros(shape, dtype=torch.bool, device=device)
        """The conditions: which values of each bit an effect has been found to go with."""
        self.agent = torch.zeros((), dtype=torch.int64, device=device)
        """The class whose moves carry the most information about the action."""

    def learn(
        self,
        classes: Int[Tensor, "M"],
        actions: Int[Tensor, "M"],
        moves: Int[Tensor, "M 2"],
        bits: Bool[Tensor, "M bits"],
        valid: Bool[Tensor, "M"],
    ) -> None:
        """Count moves of things of some class, in some condition, under an action; those not `valid` are ignored."""
        A = self.counts.shape[1]
        near = (moves.abs() <= FARTHEST).all(-1) & valid & (classes >= 0)
        kind = (classes.clamp(min=0) * A + actions)[:, None] * 2 + torch.arange(2, device=moves.device)  # (M, 2)
        row = kind * N_EFFECTS + moves.clamp(-FARTHEST, FARTHEST) + FARTHEST
        seen = (torch.stack([~bits, bits], -1) & near[:, None, None]).flatten(1).int()  # (M, bits * 2)
        self.counts.view(-1, seen.shape[1]).index_add_(0, row.flatten(), seen.repeat_interleave(2, 0))
        self._conclude()

    def _conclude(self) -> None:
        """Compute conditions and the agent's class from the counts, in place."""
        of_effect, of_all = self.seen(), self.counts.sum(3, keepdim=True)  # (C, A, 2, E), (C, A, 2, 1, bits, 2)
        usual = of_effect / of_effect.sum(-1, keepdim=True).clamp(min=1)
        rate = self.counts / of_all.clamp(min=1)
        self.allows.copy_((self.counts > 0) & (rate >= NOISE * usual[..., None, None]))
        self.agent.copy_(information(of_effect).argmax())

    def seen(self) -> Int[Tensor, "C A 2 E"]:
        """How often each effect was seen."""
        return self.counts[..., 0, :].sum(-1)

    def predict(self, classes: Int[Tensor, "M"], bits: Bool[Tensor, "M bits"]) -> Prediction:
        """The effect whose condition holds; known only if hardly any other effect's does."""
        index = bits.long()[:, None, None, None, :, None].expand(-1, *self.allows.shape[1:5], 1)
        holds = self.allows[classes.clamp(min=0)].gather(-1, index).all(-2)[..., 0]  # (M, A, 2, E)
        support = self.seen()[classes.clamp(min=0)] * holds
        most, effect = support.max(-1)
        known = (most >= LEAST_SEEN) & (most >= PRECISION * support.sum(-1)) & (classes >= 0)[:, None, None]
        return Prediction((effect - FARTHEST) * known, known)

    def described(self, kind: int, action: int, axis: int) -> dict[int, dict[str, bool]]:
        """For display: each effect seen, and the bits that its condition requires."""
        n, allows = self.seen()[kind, action, axis], self.allows[kind, action, axis]
        return {
            e - FARTHEST: {name: bool(ok[1]) for name, ok in zip(NAMES, allows[e], strict=True) if ok[0] != ok[1]}
            for e in n.nonzero().flatten().tolist()
        }

    def state_dict(self) -> State:
        """Only the rows of what was ever seen, which are few."""
        rows = self.counts.view(-1, 2 * len(NAMES))
        index = rows.any(1).nonzero().flatten()
        return {"index": index.int(), "counts": rows[index]}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        rows, index = self.counts.view(-1, 2 * len(NAMES)), state["index"].long().to(self.counts.device)
        if len(index) != len(state["counts"]) or (
            len(index) and not 0 <= int(index.min()) <= int(index.max()) < len(rows)
        ):
            raise ValueError(f"the index of the rules does not fit {len(rows)} of them")
        rows.zero_()
        rows[index] = state["counts"].to(rows.device)
        self._conclude()


def information(seen: Int[Tensor, "C A 2 E"]) -> Float[Tensor, "C"]:
    """Mutual information of the action and the move of each class, in nats, summed over both axes, less what would be
    found by chance (Miller and Madow)."""
    n = seen.sum((1, 3), keepdim=True).clamp(min=1)  # (C, 1, 2, 1)
    joint = seen / n
    apart = joint.sum(1, keepdim=True) * joint.sum(3, keepdim=True)
    found = (joint * (joint / apart.clamp(min=1e-12)).clamp(min=1e-12).log()).sum((1, 3))  # (C, 2)
    free = ((seen.sum(1) > 0).sum(-1) - 1).clamp(min=0) * ((seen.sum(3) > 0).sum(1) - 1).clamp(min=0)
    return (found - free / (2 * n[:, 0, :, 0])).sum(-1)
