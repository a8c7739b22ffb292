"""State as flat names and tensors, Adam's included."""

import pytest
import torch
from torch import nn

from megareward.state import joined, load_optimiser_state, optimiser_state, part


def test_a_part_is_what_was_joined_under_its_name_and_no_other():
    parts = {
        "policy": {"trunk.w": torch.ones(2), "b": torch.zeros(1)},
        "policy2": {"w": torch.arange(3)},
        "a.b": {"w": torch.ones(())},
    }
    state = joined(**parts, nothing={})
    assert list(state) == ["policy.trunk.w", "policy.b", "policy2.w", "a.b.w"]
    for prefix, own in parts.items():
        assert part(state, prefix).keys() == own.keys()
        assert all(part(state, prefix)[name] is tensor for name, tensor in own.items())
    assert part(state, "policy.trunk").keys() == {"w"}
    assert part(state, "nothing") == part(state, "pol") == {}


def network(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    layers = nn.Sequential(nn.Conv2d(2, 3, 2), nn.Flatten(), nn.Linear(12, 4))
    layers[0].weight.data = layers[0].weight.data.to(memory_format=torch.channels_last)  # strides of its own
    return layers


def adam(layers: nn.Module, rate: float = 0.1, fused: bool = True) -> torch.optim.Adam:
    return torch.optim.Adam(layers.parameters(), rate, fused=fused)


def learn(layers: nn.Module, optimiser: torch.optim.Optimizer, seed: int) -> None:
    x = torch.randn(5, 2, 3, 3, generator=torch.Generator().manual_seed(seed))
    optimiser.zero_grad()
    (layers(x) ** 2).sum().backward()
    optimiser.step()


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("n_steps", [0, 1, 3])
def test_adam_goes_on_from_its_state_as_if_it_had_never_stopped(n_steps, fused):
    through, resumed = network(0), network(1)
    optimiser, other = adam(through, fused=fused), adam(resumed, fused=fused)
    for step in range(n_steps):
        learn(through, optimiser, step)
    learn(resumed, other, 99)  # moments of its own, to be replaced
    state = {name: tensor.clone() for name, tensor in optimiser_state(optimiser).items()}
    assert len(state) == (3 * 4 if n_steps else 0)  # exp_avg, exp_avg_sq and step of every parameter
    resumed.load_state_dict(through.state_dict())
    load_optimiser_state(other, state)
    for step in range(3):
        learn(through, optimiser, 10 + step)
        learn(resumed, other, 10 + step)
    for one, two in zip(through.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, two)
    after, of_other = optimiser_state(optimiser), optimiser_state(other)
    assert after.keys() == of_other.keys()
    assert all(torch.equal(after[name], of_other[name]) for name in after)


def test_steps_after_loading_leave_the_loaded_state_alone_and_the_rate_is_the_optimisers_own():
    layers = network(0)
    optimiser = adam(layers)
    learn(layers, optimiser, 0)
    state = {name: tensor.clone() for name, tensor in optimiser_state(optimiser).items()}
    before = {name: tensor.clone() for name, tensor in state.items()}
    other = adam(layers, rate=0.5)
    load_optimiser_state(other, state)
    learn(layers, other, 1)
    assert all(torch.equal(state[name], before[name]) for name in before)
    assert other.param_groups[0]["lr"] == 0.5


def test_moments_lie_in_memory_as_their_parameters_do():
    layers = network(0)
    optimiser, other = adam(layers), adam(layers)
    learn(layers, optimiser, 0)
    # A checkpoint keeps numbers, not strides.
    load_optimiser_state(other, {name: tensor.contiguous() for name, tensor in optimiser_state(optimiser).items()})
    for parameter, moments in other.state.items():
        assert moments["exp_avg"].stride() == moments["exp_avg_sq"].stride() == parameter.stride()
        for name in ("exp_avg", "exp_avg_sq"):
            assert torch.equal(moments[name], optimiser.state[parameter][name])
