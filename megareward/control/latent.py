"""Latent control and the reward for it: Eq. 5, 9, 10 and 11, as pure functions.

`direct` (N, HW) is ADM's alpha(s_t, a_{t-1}), `relation` (N, to, from) is RTM's alpha(s_t, s_{t-1}), and `g` (N, HW) is
what all actions of the episode so far control now.

What follows before anything is learnt: rows of the relation sum to 1 over `from`, so g <= 1 / (1 - rho); and
if every cell relied on itself alone, the sum of g would grow the same way whatever the agent did. All the information
in Eq. 11 is in how many cells rely on well-controlled ones.
"""

from typing import NamedTuple

import torch

from megareward.control.config import LatentConfig, RewardForm
from megareward.types import Bool, Float, Tensor


def chain(relation: Float[Tensor, "N HW HW"], control: Float[Tensor, "N HW"]) -> Float[Tensor, "N HW"]:
    """Eq. 5: a cell is controlled as far as the cells it relies on were: sum over from of relation * control[from]."""
    return torch.einsum("nij,nj->ni", relation, control)


def latent_control(
    direct: Float[Tensor, "T N HW"], relation: Float[Tensor, "T N HW HW"], n: int
) -> Float[Tensor, "N HW"]:
    """alpha(s_T, a_{T-n}): how the action n steps before the last frame controls it, by Eq. 5 applied n - 1 times.

    direct[t] and relation[t] belong to the transition that ends at frame t + 1, so direct[-n] is direct control
    by the action n steps ago.
    """
    control = direct[len(direct) - n]
    for t in range(len(direct) - n + 1, len(direct)):
        control = chain(relation[t], control)
    return control


def accumulated_control(
    direct: Float[Tensor, "T N HW"], relation: Float[Tensor, "T N HW HW"], rho: float
) -> Float[Tensor, "N HW"]:
    """Eq. 9, the definition of g: sum over n of rho^(n-1) alpha(s_T, a_{T-n}). For reading and for tests."""
    g = torch.zeros_like(direct[0])
    for n in range(1, len(direct) + 1):
        g = g + rho ** (n - 1) * latent_control(direct, relation, n)
    return g


def above_chance(direct: Float[Tensor, "N HW"]) -> Float[Tensor, "N HW"]:
    """The part of direct control above 1 / HW, the value of a uniform map."""
    return (direct - 1 / direct.shape[-1]).clamp(min=0)


def hold_still(relation: Float[Tensor, "N HW HW"], changed: Bool[Tensor, "N #HW"]) -> Float[Tensor, "N HW HW"]:
    """Cells that did not change rely on themselves."""
    itself = torch.eye(relation.shape[-1], dtype=relation.dtype, device=relation.device)
    return torch.where(changed[..., None], relation, itself)


def accumulate(direct: Float[Tensor, "N HW"], passed_on: Float[Tensor, "N HW"], rho: float) -> Float[Tensor, "N HW"]:
    """Eq. 10: g_t = rho * sum_{from} relation[to, from] g_{t-1}[from] + direct, where the sum is `chain`."""
    return rho * passed_on + direct


def strongest(direct: Float[Tensor, "N HW"], passed_on: Float[Tensor, "N HW"], rho: float) -> Float[Tensor, "N HW"]:
    """Eq. 10 with the larger of the two in place of their sum."""
    return torch.maximum(rho * passed_on, direct)


def remember(g: Float[Tensor, "N HW"], memory: Float[Tensor, "N HW"], rho: float) -> Float[Tensor, "N HW"]:
    """The highest g of each cell so far, discounted by rho per step since then. With `hold`, and where the background
    forgets nothing, it equals g."""
    return torch.maximum(g, rho * memory)


def mega_reward(
    g: Float[Tensor, "*B HW"],
    g_prev: Float[Tensor, "*B HW"],
    passed_on: Float[Tensor, "*B HW"] | None = None,
    form: RewardForm = "difference",
    beyond: Bool[Tensor, "*B HW"] | Float[Tensor, "*B HW"] | None = None,
) -> Float[Tensor, "*B"]:
    """Eq. 11: r = sum over the cells of g_t - g_{t-1}; the other forms are ours or the released code's.

    `positive` counts only the cells that gained. `record` is the same, but `advance` passes the result of `remember`
    as `g_prev`. `spread` rewards control that reached new cells, before discount and direct control: the positive
    part of `passed_on` - `g_prev`, which is again the result of `remember`. `level` is the sum of g. `beyond` and
    `moved` reward what earlier actions still control, in the cells of the mask `beyond` only, or weighted by it.
    """
    if form == "difference":
        return (g - g_prev).sum(-1)
    if form == "level":
        return g.sum(-1)
    if form in ("positive", "record"):
        return (g - g_prev).clamp(min=0).sum(-1)
    if passed_on is None:
        raise ValueError(f"passed_on is None, but the form '{form}' is made of it: pass the control passed on.")
    if form == "spread":
        return (passed_on - g_prev).clamp(min=0).sum(-1)
    if beyond is None:
        raise ValueError(f"beyond is None, but the form '{form}' pays there only: say which cells count.")
    return (passed_on * beyond).sum(-1)


def clear(g: Float[Tensor, "N HW"], first: Bool[Tensor, "N"]) -> Float[Tensor, "N HW"]:
    """g with zeros where an episode begins: nothing is controlled yet."""
    return g.masked_fill(first[:, None], 0)


class Accumulated(NamedTuple):
    """Accumulated control of N environments after a step, and the reward for that step."""

    g: Float[Tensor, "N HW"]
    memory: Float[Tensor, "N HW"]
    """See `remember`; the forms `record` and `spread` reward what exceeds it."""
    mega_reward: Float[Tensor, "N"]


def advance(
    g_prev: Float[Tensor, "N HW"],
    memory: Float[Tensor, "N HW"],
    direct: Float[Tensor, "N HW"],
    passed_on: Float[Tensor, "N HW"],
    first: Bool[Tensor, "N"],
    flash: Bool[Tensor, "N"] | None,
    background: Bool[Tensor, "N HW"] | None,
    changed: Bool[Tensor, "N HW"],
    config: LatentConfig,
    size: Float[Tensor, "N HW"] | None = None,
) -> Accumulated:
    """One step of Eq. 10 and 11 with all that `config` asks for; whoever makes the maps, learnt or true.

    `direct` is control by the last action, `passed_on` control by earlier ones: Eq. 5 along a relation, or found by
    branching the game. `first`: a frame opens an episode. `flash`: the step changed most of the screen at once.
    `background`: cells that show nothing else. Both are None where the option is off. `changed`: cells that differ from
    a step ago. `size`: size of each thing's change, in 16ths of the screen, if things carry control. (Direct control
    of a thing is exactly 0 unless it carries information about the action; that of a cell is compared with 1 / HW.)
    """
    even = 0 if config.above_chance or size is not None else 1 / direct.shape[-1]
    beyond = direct <= even
    if config.reward == "moved":
        beyond = beyond & (changed if flash is None else changed & ~flash[:, None])
        beyond = beyond if size is None else beyond * size
    if flash is not None:  # it gives no control and passes none on
        direct, passed_on = clear(direct, flash), torch.where(flash[:, None], g_prev, passed_on)
    if config.hold:  # no cell loses what it had
        passed_on = torch.maximum(g_prev, passed_on)
    if background is not None:
        passed_on = passed_on * torch.where(background, config.background, 1.0)
    g = (strongest if config.combine == "max" else accumulate)(direct, passed_on, config.rho)
    g = clear(g.clamp(0, 1) if config.clip else g, first)
    had = memory if config.reward in ("spread", "record") else g_prev
    reward = mega_reward(g, had, passed_on, config.reward, beyond).masked_fill(first, 0)
    return Accumulated(g, clear(remember(g, memory, config.rho), first), reward)
