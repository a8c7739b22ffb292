"""Dreams: M goes on from what it has seen, without the game; V draws what M foresees."""

import torch

from megareward.types import Float, Int, Tensor, UInt8
from megareward.world_model.learner import WorldModel

MemoryState = tuple[Float[Tensor, "B hidden"], Float[Tensor, "B hidden"]]


@torch.no_grad()
def watch(
    model: WorldModel, frames: UInt8[Tensor, "T_plus_1 B px_h px_w"], actions: Int[Tensor, "T B"]
) -> tuple[Float[Tensor, "B z"], MemoryState]:
    """The code of the last frame of an episode so far, and what M remembers of those before it."""
    h = torch.zeros(frames.shape[1], model.hidden, device=model.device)
    state = (h, h.clone())
    for seen, taken in zip(frames[:-1], actions, strict=True):
        state = model.memory.advance(model.codes(seen)[0], taken, state)
    return model.codes(frames[-1])[0], state


@torch.no_grad()
def dream(
    model: WorldModel,
    z: Float[Tensor, "B z"],
    state: MemoryState,
    actions: Int[Tensor, "T B"],
    draws: torch.Generator | None = None,
    temperature: float = 1.0,
) -> tuple[UInt8[Tensor, "T B px_h px_w"], Float[Tensor, "T B"]]:
    """What M imagines these actions to lead to, drawn by V, and how likely it thinks an end of the game. `draws`: the
    next code is drawn at random from what may come, hotter than M believes above a temperature of 1; without, it is
    what M expects."""
    drawn, ends = [], []
    for taken in actions:
        state = model.memory.advance(z, taken, state)
        mixture, end = model.memory.foresee(state[0], z)
        z = mixture.expected() if draws is None else mixture.sample(draws, temperature)
        drawn.append(model.vision.decode(z))
        ends.append(end.sigmoid())
    return torch.stack(drawn), torch.stack(ends)
