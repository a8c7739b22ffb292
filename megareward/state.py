"""State as flat names and tensors: what every checkpoint is made of."""

from collections.abc import Mapping

import torch

from megareward.types import Tensor

State = dict[str, Tensor]


def joined(**parts: Mapping[str, Tensor]) -> State:
    """{'policy': {'w': ...}} -> {'policy.w': ...}."""
    return {f"{prefix}.{name}": tensor for prefix, part in parts.items() for name, tensor in part.items()}


def part(state: Mapping[str, Tensor], prefix: str) -> State:
    """The tensors under one prefix, without it."""
    return {name[len(prefix) + 1 :]: tensor for name, tensor in state.items() if name.startswith(prefix + ".")}


def optimiser_state(optimiser: torch.optim.Optimizer) -> State:
    """Adam's moments by parameter number. The groups' settings come from the config, not from the checkpoint."""
    return {
        f"{number}.{name}": torch.as_tensor(value)
        for number, moments in optimiser.state_dict()["state"].items()
        for name, value in moments.items()
    }


def load_optimiser_state(optimiser: torch.optim.Optimizer, state: Mapping[str, Tensor]) -> None:
    """Copies: Adam would write into what it was given."""
    moments: dict[int, State] = {}
    for name, tensor in state.items():
        number, key = name.split(".", 1)
        moments.setdefault(int(number), {})[key] = tensor.clone()
    optimiser.load_state_dict({"state": moments, "param_groups": optimiser.state_dict()["param_groups"]})
    for parameter, own in optimiser.state.items():
        for name, value in own.items():
            if value.shape == parameter.shape:  # in memory as the parameter is: fused Adam insists
                own[name] = torch.empty_like(parameter, requires_grad=False).copy_(value)
