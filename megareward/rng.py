"""The state of random numbers, saved and restored."""

import torch


def set_rng_state(generator: torch.Generator, state: torch.Tensor) -> None:
    """Restore a saved random state. Those of a GPU and a CPU are of different kinds: a run that moves from one to the
    other keeps its fresh state, which is all it can do and all it needs."""
    if len(state) == len(generator.get_state()):
        generator.set_state(state.cpu())
