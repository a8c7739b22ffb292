import pytest
import torch
from torch import nn

from megareward.control.grid import Grid
from megareward.control.layers import Convolution, Decoder, Encoder, NormLeaky, choose_execution, widths

GRIDS = [Grid(2, 3, 42, 36), Grid(1, 2, 14, 20), Grid(4, 6, 32, 60), Grid(1, 1, 84, 42)]


def test_norm_leaky_is_batch_norm_per_feature_map_then_leaky_relu():
    channels, h, w, M = 3, 4, 5, 7
    ours, theirs = NormLeaky(channels), nn.Sequential(nn.BatchNorm2d(channels), nn.LeakyReLU(0.01))
    for training in (True, False):
        ours.train(training)
        theirs.train(training)
        maps = torch.randn(M, channels, h, w)
        rows = maps.permute(0, 2, 3, 1).reshape(M, -1)
        expected = theirs(maps).permute(0, 2, 3, 1).reshape(M, -1)
        torch.testing.assert_close(ours(rows), expected)
    torch.testing.assert_close(ours.running_var, theirs[0].running_var)
    torch.testing.assert_close(ours.running_mean, theirs[0].running_mean)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("transposed", [False, True])
def test_the_dense_matrix_is_the_convolution_and_so_are_its_gradients(grid, transposed):
    conv = Convolution(grid.layers()[0], 3, 2, transposed, bias=True).double()
    h, w, c = conv.in_shape
    x = torch.randn(5, h * w * c, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(5, conv.n_out, dtype=torch.float64)
    results = []
    for dense in (False, True):
        conv.dense = dense
        y = conv(x)
        results.append([y, *torch.autograd.grad((y * weights).sum(), [x, *conv.parameters()])])
    for convolved, multiplied in zip(*results, strict=True):
        torch.testing.assert_close(convolved, multiplied, rtol=1e-10, atol=1e-10)


def test_a_row_holds_a_map_position_by_position_with_the_features_last():
    conv = Convolution(Grid(1, 1, 21, 21).layers()[0], 2, 3)
    x = torch.randn(4, 21, 21, 2)
    expected = conv.conv(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)  # (4, 9, 9, 3)
    torch.testing.assert_close(conv(x.reshape(4, -1)), expected.reshape(4, -1))


def test_the_sizes_of_the_papers_tables():
    grid = Grid(4, 4, 84, 84)
    encoder, decoder = Encoder(grid, 4, 16, 1024), Decoder(grid, 1024, 16)
    assert widths(grid, 16) == [16, 32]
    assert [m.weight.shape for m in encoder.modules() if isinstance(m, nn.Linear)] == [(1024, 1152)]
    assert [m.weight.shape for m in decoder.modules() if isinstance(m, nn.Linear)] == [(1152, 1024)]
    assert [m.conv.weight.shape for m in encoder.modules() if isinstance(m, Convolution)] == [
        (16, 4, 5, 5),
        (32, 16, 4, 4),
    ]
    assert [m.conv.weight.shape for m in decoder.modules() if isinstance(m, Convolution)] == [
        (32, 16, 4, 4),
        (16, 1, 5, 5),
    ]


@pytest.mark.parametrize("grid", GRIDS)
def test_a_decoder_draws_exactly_one_cell_for_any_cell_size(grid):
    encoder, decoder = Encoder(grid, 2, 4, 6), Decoder(grid, 6, 4)
    codes = encoder(torch.randn(5, grid.cell_h * grid.cell_w * 2))
    assert codes.shape == (5, 6)
    assert decoder(codes).shape == (5, grid.cell_h * grid.cell_w)


def test_choosing_an_execution_reaches_every_layer():
    decoder = Decoder(Grid(4, 4, 84, 84), 8, 4)
    choose_execution(decoder, dense=True, fused=True)
    assert all(m.dense for m in decoder.modules() if isinstance(m, Convolution))
    assert all(m.fused for m in decoder.modules() if isinstance(m, NormLeaky))
