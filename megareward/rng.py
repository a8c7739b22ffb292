"""The state of random numbers, saved and restored."""

import torch


def set_rng_state(generator: torch.Generator, state: torch.Tensor) -> None:
    """Go on with the saved random state. A GPU's and a CPU's are of different kinds: a run that moves from one to the
    other keeps the new one, which is all it can do and all it needs."""
    if len(state) == len(generator.get_state()):
        generator.set_state(state.cpu())
