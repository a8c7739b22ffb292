"""State as flat names and tensors: what every checkpoint is made of."""

from collections.abc import Mapping

import torch

from megareward.types import Tensor

State = dict[str, Tensor]


RANDOM_STATES = (16, 5056)
"""Bytes of a random generator's state, on a GPU and on a CPU."""


class MismatchError(RuntimeError):
    """A saved tensor is not one that fits here."""


def joined(**parts: Mapping[str, Tensor]) -> State:
    """{'policy': {'w': ...}} -> {'policy.w': ...}."""
    return {f"{prefix}.{name}": tensor for prefix, part in parts.items() for name, tensor in part.items()}


def part(state: Mapping[str, Tensor], prefix: str) -> State:
    """The tensors under one prefix, without it."""
    return {name[len(prefix) + 1 :]: tensor for name, tensor in state.items() if name.startswith(prefix + ".")}


def check_fits(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Every tensor that is expected must be there with its shape and type, and all numbers finite. An axis that is
    empty where nothing was learnt yet may have any length. Random states differ between devices."""
    for name, like in expected.items():
        if name not in found:
            raise MismatchError(f"{name} is missing")
        tensor = found[name]
        shapes_fit = len(tensor.shape) == len(like.shape) and all(
            own in (0, saved) for own, saved in zip(like.shape, tensor.shape, strict=True)
        )
        both_random = is_random_state(tensor) and is_random_state(like)
        if tensor.dtype != like.dtype or not (shapes_fit or both_random):
            raise MismatchError(f"{name} is {_described(tensor)}, not {_described(like)}")
    for name, tensor in found.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise MismatchError(f"{name} is not finite")


def is_random_state(tensor: Tensor) -> bool:
    return tensor.dtype == torch.uint8 and tensor.ndim == 1 and len(tensor) in RANDOM_STATES


def _described(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} of {str(tensor.dtype).removeprefix('torch.')}"


def packed(counts: Tensor) -> State:
    """Counts that are mostly 0 in sparse form: the indices of the others, and their counts."""
    index = counts.nonzero().flatten()
    return {"index": index.int(), "counts": counts[index]}


def unpacked_into(counts: Tensor, state: Mapping[str, Tensor]) -> None:
    """The reverse. Without an index, as in older checkpoints, the counts are complete."""
    if "index" not in state:
        counts.copy_(state["counts"])
        return
    index = state["index"].long().to(counts.device)
    if len(index) != len(state["counts"]) or (
        len(index) and not 0 <= int(index.min()) <= int(index.max()) < len(counts)
    ):
        raise MismatchError(f"the index of the counts does not fit {len(counts)} of them")
    counts.zero_()
    counts[index] = state["counts"].to(counts.device)


def optimiser_state(optimiser: torch.optim.Optimizer) -> State:
    """Adam's moments by parameter number. The groups' settings come from the config, not from the checkpoint."""
    return {
        f"{number}.{name}": torch.as_tensor(value)
        for number, moments in optimiser.state_dict()["state"].items()
        for name, value in moments.items()
    }


def load_optimiser_state(optimiser: torch.optim.Optimizer, state: Mapping[str, Tensor]) -> None:
    """Load a copy, since Adam writes into what it is given. Its fused kernel reads as many moments as there are
    parameters, however many it was given, so all shapes are checked before."""
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    moments: dict[int, State] = {}
    for name, tensor in state.items():
        number, _, key = name.partition(".")
        if not number.isdecimal() or int(number) >= len(parameters):
            raise MismatchError(f"the optimiser has no parameter '{number}'")
        moments.setdefault(int(number), {})[key] = tensor.clone()
    for i, own in moments.items():
        like = parameters[i].detach()
        check_fits(own, {"step": torch.tensor(0.0), "exp_avg": like, "exp_avg_sq": like})
        if len(own) > 3 or own["step"] < 0 or (own["exp_avg_sq"] < 0).any():
            raise MismatchError(f"what the optimiser knows of parameter {i} is not Adam's")
    optimiser.load_state_dict({"state": moments, "param_groups": optimiser.state_dict()["param_groups"]})
    for parameter, own in optimiser.state.items():
        for name, value in own.items():
            if value.shape == parameter.shape:  # laid out in memory as the parameter: fused Adam needs it
                own[name] = torch.empty_like(parameter, requires_grad=False).copy_(value)
