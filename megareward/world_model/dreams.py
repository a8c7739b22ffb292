"""Dreams: M goes on predicting from what it has seen, without the game; V draws what M predicts."""

import torch

from megareward.types import Float, Int, Tensor, UInt8
from megareward.world_model.learner import WorldModel

MemoryState = tuple[Float[Tensor, "B hidden"], Float[Tensor, "B hidden"]]


@torch.no_grad()
def watch(
    model: WorldModel, frames: UInt8[Tensor, "T_plus_1 B px_h px_w"], actions: Int[Tensor, "T B"]
) -> tuple[Float[Tensor, "B z"], MemoryState]:
    """The code of the last frame of an episode so far, and M's state after those before it."""
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
    """What M predicts after these actions, drawn by V, and the probability of an end of the game. With `draws` the next
    code is sampled from M's mixture, above a temperature of 1 more widely than M predicts; without, it is the
    mixture's mean."""
    drawn, ends = [], []
    for taken in actions:
        state = model.memory.advance(z, taken, state)
        mixture, end = model.memory.foresee(state[0], z)
        z = mixture.expected() if draws is None else mixture.sample(draws, temperature)
        drawn.append(model.vision.decode(z))
        ends.append(end.sigmoid())
    return torch.stack(drawn), torch.stack(ends)
