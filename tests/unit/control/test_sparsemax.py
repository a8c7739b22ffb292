import entmax
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from megareward.control.sparsemax import ATTENTIONS, sparsemax

THEIRS = {"sparsemax": entmax.sparsemax, "softmax": torch.softmax}


def scores(*shape: int, scale: float = 1.0, seed: int = 0) -> torch.Tensor:
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("kind", ATTENTIONS)
@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 10.0])
def test_maps_and_gradients_equal_those_of_the_entmax_package(kind, scale):
    ours = scores(5, 3, 24, scale=scale).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    weights = scores(5, 3, 24, seed=1)
    p, q = ATTENTIONS[kind](ours), THEIRS[kind](theirs, dim=-1)
    torch.testing.assert_close(p, q, rtol=0, atol=1e-12)
    (p * weights).sum().backward()
    (q * weights).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-12)


def test_the_gradient_is_the_derivative():
    assert torch.autograd.gradcheck(sparsemax, scores(4, 7, scale=0.7).requires_grad_())


def test_sparsemax_of_two_scores_is_known_in_closed_form():
    z = torch.tensor([[0.2, 0.0], [3.0, 0.0], [0.5, 0.5], [0.0, -1.0]])
    assert torch.allclose(sparsemax(z), torch.tensor([[0.6, 0.4], [1.0, 0.0], [0.5, 0.5], [1.0, 0.0]]))


def test_a_far_lead_takes_all_and_the_others_get_exactly_nothing():
    p = sparsemax(torch.tensor([5.0, 1.0, 0.0, -3.0]))
    assert p.tolist() == [1.0, 0.0, 0.0, 0.0]


def test_a_cell_without_attention_receives_no_gradient():
    z = torch.tensor([2.0, 1.9, -4.0], requires_grad=True)
    (sparsemax(z) * torch.tensor([3.0, -1.0, 100.0])).sum().backward()
    assert z.grad is not None
    assert z.grad[2] == 0
    assert z.grad[0] == -z.grad[1] != 0


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(sorted(ATTENTIONS)),
    st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=50),
    st.floats(-1e3, 1e3, width=32),
)
def test_every_map_is_a_distribution_that_keeps_the_order_and_ignores_a_constant(kind, values, constant):
    z = torch.tensor(values, dtype=torch.float64)
    p = ATTENTIONS[kind](z)
    assert (p >= 0).all()
    assert p.sum().item() == pytest.approx(1.0, abs=1e-9)
    assert (p[z.argsort()].diff() >= -1e-12).all()
    torch.testing.assert_close(ATTENTIONS[kind](z + constant), p, rtol=0, atol=1e-7)
