"""The Triton kernels against their plain PyTorch forms. Needs a GPU, or TRITON_INTERPRET=1 to run them on the CPU."""

import pytest
import torch
from torch import Tensor

from megareward.control.config import RtmConfig
from megareward.control.grid import Grid
from megareward.control.layers import NormLeaky, choose_execution
from megareward.control.pairs import Pairs, all_pairs, attended_pairs, blend, pair_product, source_errors
from megareward.control.rtm import RTM
from megareward.control.sparsemax import sparsemax
from tests.unit.control.triton_device import DEVICE


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE, dtype)


def relative_error(ours: Tensor, theirs: Tensor) -> float:
    return ((ours.double() - theirs.double()).norm() / theirs.double().norm()).item()


@pytest.mark.parametrize(("M", "channels", "positions"), [(300, 1, 1), (7, 6, 5), (130, 16, 81), (70, 130, 1)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
def test_fused_batch_norm_and_leaky_relu_equal_pytorchs_in_float64(M, channels, positions, dtype, tolerance):
    exact, fused = NormLeaky(channels).to(DEVICE), NormLeaky(channels).to(DEVICE)
    for norm in (exact, fused):
        norm.weight.data = 1 + 0.3 * random(channels, seed=1)
        norm.bias.data = 0.3 * random(channels, seed=2)
    exact.double()
    fused.fused = True
    x = (5 + 2 * random(M, positions * channels, seed=3)).to(dtype)
    dy = random(M, positions * channels, seed=4, dtype=dtype)
    results = []
    for norm, precision in ((exact, torch.float64), (fused, dtype)):
        leaf = x.to(precision).requires_grad_()
        y = norm(leaf)
        results.append([y, *torch.autograd.grad(y, [leaf, norm.weight, norm.bias], dy.to(precision))])
        results[-1] += [norm.running_mean, norm.running_var]
    for name, expected, got in zip(["y", "dx", "dw", "db", "mean", "var"], *results, strict=True):
        assert got.dtype == (dtype if name in ("y", "dx") else torch.float32), name
        assert relative_error(got, expected) < tolerance, name


def chosen_pairs(N: int, HW: int, attended: bool) -> tuple[Tensor, Pairs]:
    relation = sparsemax(random(N, HW, HW, seed=5)) if attended else random(N, HW, HW, seed=5).softmax(-1)
    return relation, (attended_pairs(relation) if attended else all_pairs(N, HW))


@pytest.mark.parametrize("sees_target", [False, True])
@pytest.mark.parametrize("attended", [False, True])
@pytest.mark.parametrize(("N", "HW", "features"), [(11, 6, 24), (2, 1, 5), (3, 16, 300)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
def test_fused_product_of_pairs_equals_pytorchs(N, HW, features, attended, sees_target, dtype, tolerance):
    _, pairs = chosen_pairs(N, HW, attended)
    codes = random(N, HW, features, seed=1, dtype=dtype).requires_grad_()
    offsets = random(HW, HW, features, seed=2, dtype=dtype).requires_grad_()
    seen = random(N, HW, features, seed=6, dtype=dtype).requires_grad_() if sees_target else None
    factors = [codes, offsets] if seen is None else [codes, offsets, seen]
    results = []
    for fused in (False, True):
        product = pair_product(codes, offsets, pairs, fused, seen)
        weights = random(*product.shape, seed=3, dtype=dtype)
        results.append([product, *torch.autograd.grad(product, factors, weights)])
    names = ["product", "d_codes", "d_offsets", "d_seen"][: 1 + len(factors)]
    for name, expected, got in zip(names, *results, strict=True):
        assert got.dtype == expected.dtype, name
        assert relative_error(got, expected) < tolerance, name


@pytest.mark.parametrize("attended", [False, True])
@pytest.mark.parametrize(("N", "HW", "pixels"), [(7, 6, 21), (2, 1, 5), (3, 16, 441)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
def test_fused_equation_6_equals_pytorchs(N, HW, pixels, attended, dtype, tolerance):
    relation, pairs = chosen_pairs(N, HW, attended)
    relation.requires_grad_()
    M = N * HW * HW if pairs.rows is None else len(pairs.rows)
    drawn = random(M, pixels, seed=1, dtype=dtype).requires_grad_()
    results = []
    for fused in (False, True):
        prediction = blend(drawn, relation, pairs, fused)
        weights = random(*prediction.shape, seed=3)
        results.append([prediction, *torch.autograd.grad(prediction, [drawn, relation], weights)])
    for name, expected, got in zip(["prediction", "d_drawn", "d_relation"], *results, strict=True):
        assert got.dtype == expected.dtype, name
        assert relative_error(got, expected) < tolerance, name


def test_fused_product_of_three_codes_is_rounded_once():
    codes, offsets, seen = (random(3, 3, 40, seed=seed, dtype=torch.bfloat16) for seed in (1, 2, 3))
    exact = pair_product(codes.float(), offsets.float(), all_pairs(3, 3), seen=seen.float())
    grain = torch.exp2(torch.frexp(exact).exponent - 8.0)  # of bfloat16; Triton's interpreter rounds towards zero

    def error(fused: bool) -> Tensor:
        return (pair_product(codes, offsets, all_pairs(3, 3), fused, seen).float() - exact).abs()

    assert (error(fused=True) < grain).all()
    assert (error(fused=False) > grain).any(), "two roundings should show, or this test says nothing"


@pytest.mark.parametrize("scale", [2.5, torch.tensor(2.5)], ids=["number", "tensor"])
@pytest.mark.parametrize(("N", "K", "HW", "pixels"), [(7, 3, 6, 21), (2, 1, 1, 5), (3, 2, 16, 441), (2, 3, 5, 5000)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
def test_fused_errors_of_sources_equal_pytorchs(N, K, HW, pixels, scale, dtype, tolerance):
    drawn = random(N * K * HW, pixels, seed=1, dtype=dtype).requires_grad_()
    wanted, weights = random(N, K, pixels, seed=2), random(N, K, HW, seed=3)
    scale = scale.to(DEVICE) if isinstance(scale, Tensor) else scale
    results = []
    for fused in (False, True):
        errors = source_errors(drawn, wanted, scale, fused)
        results.append([errors, *torch.autograd.grad(errors, drawn, weights)])
    for name, expected, got in zip(["errors", "d_drawn"], *results, strict=True):
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape), name
        assert relative_error(got, expected) < tolerance, name


@pytest.mark.parametrize("options", [{}, {"loss": "blend", "source_loss": 0.0}], ids=["default", "blend"])
@pytest.mark.parametrize("attention", ["sparsemax", "softmax"])
def test_a_whole_training_step_of_rtm_is_the_same_fused_and_plain(attention, options):
    grid, N = Grid(2, 3, 42, 36), 5
    torch.manual_seed(0)
    model = RTM(
        grid, RtmConfig("pairs", attention=attention, channels=4, features=32, gamma_features=24, **options), 7
    ).to(DEVICE)
    source = random(N, grid.n_cells, grid.cell_h * grid.cell_w * 4, seed=1)
    target, actions = random(N, grid.n_cells, grid.cell_h * grid.cell_w, seed=2), torch.arange(N, device=DEVICE)
    drawn = None if options else torch.tensor([[0, 2, 3], [1, 4, 5], [0, 1, 2], [2, 3, 5], [0, 3, 4]], device=DEVICE)
    results = []
    for fused in (False, True):
        choose_execution(model, dense=False, fused=fused)
        losses = model.losses(model(source, actions, target, drawn), target, 1.5)
        loss = torch.stack(list(losses.values())).sum()
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        results.append((loss, torch.cat([g.flatten() for g in gradients])))
    (plain_loss, plain), (fused_loss, fused) = results
    assert fused_loss.item() == pytest.approx(plain_loss.item(), rel=1e-4)
    assert relative_error(fused, plain) < 1e-2
