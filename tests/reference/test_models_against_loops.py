"""ADM and RTM against the paper written as loops: outputs, losses and the gradient of every parameter, in float64."""

import paper_loops
import pytest
import torch
from torch import Tensor, nn

from megareward.control.adm import ADM
from megareward.control.config import AdmConfig, RtmConfig
from megareward.control.grid import Grid
from megareward.control.layers import NormLeaky, choose_execution
from megareward.control.rtm import RTM

N, A, STACK = 5, 7, 4  # no two axes of one size, so that a swapped axis fails
GRIDS = [Grid(2, 3, 42, 36), Grid(3, 2, 24, 20), Grid(1, 8, 7, 80)]  # cells 21 x 12, 8 x 10 and 7 x 10
ids = [f"{g.H}x{g.W} cells of {g.cell_h}x{g.cell_w}" for g in GRIDS]
TOLERANCE = {"rtol": 1e-6, "atol": 1e-9}


def prepared(model: nn.Module, training: bool, seed: int = 0) -> nn.Module:
    """In float64, with statistics, scales and biases that are not the trivial ones of a new BatchNorm."""
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, NormLeaky):
            for tensor, low, high in (
                (module.weight, 0.5, 1.5),
                (module.bias, -0.3, 0.3),
                (module.running_mean, -0.2, 0.2),
                (module.running_var, 0.5, 1.5),
            ):
                tensor.data.uniform_(low, high, generator=generator)
    return model.double().train(training)


def cells(grid: Grid, *leading: int, seed: int) -> Tensor:
    """(*leading, rows, columns) of every cell, (N, H, W, ...)."""
    shape = (N, grid.H, grid.W, *leading, grid.cell_h, grid.cell_w)
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rows(cells: Tensor) -> Tensor:
    """(N, H, W, stack, rows, columns) as the models take them: (N, HW, rows * columns * stack)."""
    if cells.dim() == 6:
        cells = cells.permute(0, 1, 2, 4, 5, 3)
    return cells.flatten(3).flatten(1, 2)


def gradients(model: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def assert_same_gradients(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    silent = [name for name, gradient in theirs.items() if gradient.abs().max() < 1e-12]
    assert len(silent) < len(theirs) / 5, f"too many parameters without gradient for this test to say much: {silent}"
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], **TOLERANCE, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("attention", ["sparsemax", "softmax"])
@pytest.mark.parametrize("place", [True, False], ids=["place", "no-place"])
@pytest.mark.parametrize("grid", GRIDS, ids=ids)
def test_adm_equals_equations_1_to_4_as_loops(grid, attention, place, training):
    torch.manual_seed(1)
    config = AdmConfig(attention, channels=3, features=9, hidden=10, place=place, cell_loss=0.7, entropy_loss=0.2)
    model = prepared(ADM(grid, config, A), training)
    before, now, actions = cells(grid, seed=2), cells(grid, seed=3), [4, 0, 2, 6, 0]

    output = model(rows(before), rows(now))
    loss = sum(model.losses(output, torch.tensor(actions)).values())
    expected = paper_loops.adm(model, grid, before, now, actions, training)

    torch.testing.assert_close(output.logits, expected["logits"], **TOLERANCE)
    torch.testing.assert_close(output.direct, expected["direct"], **TOLERANCE)
    torch.testing.assert_close(loss, expected["loss"], **TOLERANCE)
    assert_same_gradients(gradients(model, loss), gradients(model, expected["loss"]))


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("loudness", [0.05, 30.0], ids=["told little", "told much"])
@pytest.mark.parametrize("grid", GRIDS, ids=ids)
def test_information_as_loops(grid, loudness, training):
    """Guesses that tell less than a tenth of all there is to tell share out less than all of direct control."""
    torch.manual_seed(1)
    config = AdmConfig(direct="information", channels=3, features=9, hidden=10, cell_loss=0.7)
    model = prepared(ADM(grid, config, A), training)
    model.theta.head[-1].weight.data *= loudness
    model.usual.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(5))
    if loudness < 1:  # a usual guess that is far from the present one tells much, too
        model.usual.fill_(1.0)
    model.usual /= model.usual.sum(-1, keepdim=True)
    before, now, actions = cells(grid, seed=2), cells(grid, seed=3), [4, 0, 2, 6, 0]

    expected = paper_loops.information(model, grid, before, now, training)
    output = model(rows(before), rows(now))
    losses = model.losses(output, torch.tensor(actions))

    torch.testing.assert_close(output.direct, expected["direct"], **TOLERANCE)
    torch.testing.assert_close(model.usual, expected["usual"], **TOLERANCE)
    assert (output.direct >= -1e-12).all()
    assert ((output.direct.sum(-1) - 1).abs() < 1e-9).all() == (loudness > 1)
    assert losses.keys() == {"cell"}
    of_cells = -output.cell_logits.log_softmax(-1)[torch.arange(N), :, actions]
    torch.testing.assert_close(losses["cell"], 0.7 * of_cells.sum(1).mean(), **TOLERANCE)
    if not training:
        torch.testing.assert_close(model.attend(rows(before), rows(now)), output.direct, **TOLERANCE)


def small_rtm(grid: Grid, training: bool, **options: object) -> RTM:
    torch.manual_seed(4)
    options = {"loss": "blend", "source_loss": 0.0, "gamma_sees_target": False} | options
    config = RtmConfig(channels=2, features=9, gamma_features=11, stack=STACK, **options)  # type: ignore[arg-type]
    model = prepared(RTM(grid, config, A), training)
    with torch.no_grad():
        # Scores far enough apart that sparsemax leaves some pairs out, as it does in a trained model.
        scores = model.gamma(rows(cells(grid, STACK, seed=5)), torch.tensor([1, 3, 0, 6, 3]), rows(cells(grid, seed=6)))
        model.gamma.head[-1].weight /= scores.std(-1).mean()
    return model


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("sees_target", [False, True], ids=["table", "eq7"])
@pytest.mark.parametrize(
    ("attention", "phi_pairs", "loss", "source_loss"),
    [
        ("sparsemax", "attended", "blend", 0.0),
        ("sparsemax", "all", "blend", 0.0),
        ("sparsemax", "attended", "blend", 0.3),
        ("softmax", "all", "blend", 0.0),
        ("softmax", "all", "mixture", 0.3),
        ("sparsemax", "attended", "mixture", 0.0),
    ],
)
@pytest.mark.parametrize("grid", GRIDS, ids=ids)
def test_rtm_equals_equations_6_to_8_as_loops(grid, attention, phi_pairs, loss, source_loss, sees_target, training):
    options = {"attention": attention, "phi_pairs": phi_pairs, "loss": loss, "source_loss": source_loss}
    model = small_rtm(grid, training, **options, gamma_sees_target=sees_target)
    source, target, actions, scale = cells(grid, STACK, seed=5), cells(grid, seed=6), [1, 3, 0, 6, 3], 2.5

    output = model(rows(source), torch.tensor(actions), rows(target))
    loss = sum(model.losses(output, rows(target), scale).values())
    expected = paper_loops.rtm(model, grid, source, actions, target, scale, training)

    assert ((output.relation == 0).any()) == (attention == "sparsemax")
    torch.testing.assert_close(output.relation, expected["relation"], **TOLERANCE)
    torch.testing.assert_close(model.predict(output, scale), rows(expected["prediction"]), **TOLERANCE)
    torch.testing.assert_close(loss, expected["loss"], **TOLERANCE)
    assert_same_gradients(gradients(model, loss), gradients(model, expected["loss"]))


@pytest.mark.parametrize("loss", ["blend", "mixture"])
def test_drawing_a_few_cells_gives_the_losses_of_these_cells(loss):
    grid = GRIDS[0]
    model = small_rtm(grid, False, attention="softmax", loss=loss, source_loss=0.3)
    source, target, actions = cells(grid, STACK, seed=5), cells(grid, seed=6), [1, 3, 0, 6, 3]
    targets = torch.tensor([[0, 2, 3], [1, 4, 5], [0, 1, 2], [2, 3, 5], [0, 3, 4]])
    output = model(rows(source), torch.tensor(actions), rows(target), targets)
    losses = model.losses(output, rows(target), 2.5)

    drawn = [[n, i // grid.W, i % grid.W] for n, chosen in enumerate(targets.tolist()) for i in chosen]
    expected = paper_loops.rtm(model, grid, source, actions, target, 2.5, training=False, only=drawn)
    torch.testing.assert_close(sum(losses.values()), expected["loss"], **TOLERANCE)
    assert_same_gradients(gradients(model, sum(losses.values())), gradients(model, expected["loss"]))


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("grid", GRIDS, ids=ids)
def test_dense_matrices_equal_the_loops_too(grid, training):
    model = small_rtm(grid, training, attention="sparsemax")
    choose_execution(model, dense=True, fused=False)
    source, target, actions = cells(grid, STACK, seed=5), cells(grid, seed=6), [1, 3, 0, 6, 3]
    loss = model.losses(model(rows(source), torch.tensor(actions)), rows(target))["transition"]
    expected = paper_loops.rtm(model, grid, source, actions, target, 1.0, training)
    torch.testing.assert_close(loss, expected["loss"], **TOLERANCE)
    assert_same_gradients(gradients(model, loss), gradients(model, expected["loss"]))


@pytest.mark.parametrize("dense", [False, True], ids=["convolved", "dense"])
@pytest.mark.parametrize(("attention", "least_cosine"), [("sparsemax", 0.9), ("softmax", 0.98)])
def test_in_bfloat16_the_relation_is_right_to_5_percent_and_the_loss_to_1_percent(attention, least_cosine, dense):
    """Rounding moves pairs in and out of sparsemax's support, so its gradient keeps less of the direction."""
    grid = GRIDS[0]
    model = small_rtm(grid, True, attention=attention, phi_pairs="all")
    source, target, actions = cells(grid, STACK, seed=5), cells(grid, seed=6), [1, 3, 0, 6, 3]
    expected = paper_loops.rtm(model, grid, source, actions, target, 1.0, training=True)
    expected_gradients = gradients(model, expected["loss"])

    model.float()
    choose_execution(model, dense=dense, fused=False)
    with torch.autocast("cpu", torch.bfloat16):
        output = model(rows(source).float(), torch.tensor(actions))
        loss = model.losses(output, rows(target).float())["transition"]
    assert output.relation.dtype == torch.float32
    torch.testing.assert_close(output.relation.double(), expected["relation"], rtol=0, atol=0.05)
    torch.testing.assert_close(loss.double(), expected["loss"], rtol=0.01, atol=0)
    ours = torch.cat([g.flatten().double() for g in gradients(model, loss).values()])
    theirs = torch.cat([g.flatten() for g in expected_gradients.values()])
    assert torch.cosine_similarity(ours, theirs, dim=0) > least_cosine


def test_only_the_sample_size_of_the_running_variance_tells_encoding_once_from_encoding_every_pair():
    grid = GRIDS[1]
    model = small_rtm(grid, True, attention="softmax")
    norm = next(m for m in model.phi.interaction.encoder.modules() if isinstance(m, NormLeaky))
    norm.running_mean.zero_()
    norm.running_var.zero_()
    source = rows(cells(grid, STACK, seed=5))
    conv = model.phi.interaction.encoder.layers[0]
    once = conv(source.flatten(0, 1)).reshape(-1, len(norm.weight))
    every_pair = once.repeat(grid.n_cells, 1)
    model(source, torch.tensor([1, 3, 0, 6, 3]))
    n = len(once)
    torch.testing.assert_close(norm.running_mean, 0.1 * every_pair.mean(0))
    torch.testing.assert_close(norm.running_var, 0.1 * every_pair.var(0, correction=0) * n / (n - 1))
