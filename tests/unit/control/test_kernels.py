"""The Triton kernels against their plain PyTorch forms. Needs a GPU, or TRITON_INTERPRET=1 to run them on the CPU."""

import os

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton is not installed: the plain PyTorch forms are used")
if torch.cuda.is_available():
    DEVICE = "cuda"
elif os.environ.get("TRITON_INTERPRET") == "1":
    DEVICE = "cpu"
else:
    pytest.skip("needs a GPU, or TRITON_INTERPRET=1", allow_module_level=True)

from megareward.control.config import RtmConfig
from megareward.control.grid import Grid
from megareward.control.layers import NormLeaky, choose_execution
from megareward.control.pairs import Pairs, all_pairs, attended_pairs, blend, pair_product
from megareward.control.rtm import RTM
from megareward.control.sparsemax import sparsemax


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


@pytest.mark.parametrize("attended", [False, True])
@pytest.mark.parametrize(("N", "HW", "features"), [(11, 6, 24), (2, 1, 5), (9, 16, 300)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
def test_fused_product_of_pairs_equals_pytorchs(N, HW, features, attended, dtype, tolerance):
    _, pairs = chosen_pairs(N, HW, attended)
    codes = random(N, HW, features, seed=1, dtype=dtype).requires_grad_()
    offsets = random(HW, HW, features, seed=2, dtype=dtype).requires_grad_()
    results = []
    for fused in (False, True):
        product = pair_product(codes, offsets, pairs, fused)
        weights = random(*product.shape, seed=3, dtype=dtype)
        results.append([product, *torch.autograd.grad(product, [codes, offsets], weights)])
    for name, expected, got in zip(["product", "d_codes", "d_offsets"], *results, strict=True):
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


@pytest.mark.parametrize("attention", ["sparsemax", "softmax"])
def test_a_whole_training_step_of_rtm_is_the_same_fused_and_plain(attention):
    grid, N = Grid(2, 3, 42, 36), 5
    torch.manual_seed(0)
    model = RTM(grid, RtmConfig(attention, channels=4, features=32, gamma_features=24), 7).to(DEVICE)
    source = random(N, grid.n_cells, grid.cell_h * grid.cell_w * 4, seed=1)
    target, actions = random(N, grid.n_cells, grid.cell_h * grid.cell_w, seed=2), torch.arange(N, device=DEVICE)
    results = []
    for fused in (False, True):
        choose_execution(model, dense=False, fused=fused)
        loss = model.losses(model(source, actions), target)["transition"]
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        results.append((loss, torch.cat([g.flatten() for g in gradients])))
    (plain_loss, plain), (fused_loss, fused) = results
    assert fused_loss.item() == pytest.approx(plain_loss.item(), rel=1e-4)
    assert relative_error(fused, plain) < 1e-2
