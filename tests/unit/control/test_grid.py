import pytest
import torch

from megareward.control.grid import Grid
from megareward.errors import UsageError


def test_a_cell_holds_the_pixels_at_its_place():
    grid = Grid(H=2, W=3, px_h=8, px_w=15)
    frames = torch.arange(7 * 8 * 15).reshape(7, 8, 15)
    cells = grid.to_cells(frames)
    assert cells.shape == (7, 6, 4, 5)
    for h in range(2):
        for w in range(3):
            assert torch.equal(cells[:, h * 3 + w], frames[:, h * 4 : h * 4 + 4, w * 5 : w * 5 + 5])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 7, 12, 14, 21, 28, 42, 84])
def test_cells_come_back_as_the_frame_for_every_grid_of_84_pixels(n):
    grid = Grid(H=n, W=7, px_h=84, px_w=84)
    frames = torch.randint(256, (2, 3, 84, 84), dtype=torch.uint8)
    assert torch.equal(grid.to_frames(grid.to_cells(frames)), frames)


def test_a_grid_that_does_not_divide_the_frame_is_refused_with_the_ones_that_do():
    with pytest.raises(UsageError, match=r"H=5 does not divide 84 pixels. Use one of 1, 2, 3, 4, 6, 7"):
        Grid(H=5, W=4, px_h=84, px_w=84)


def test_two_pairs_share_a_relative_coordinate_exactly_if_they_differ_by_the_same_step():
    grid = Grid(H=2, W=3, px_h=2, px_w=3)
    offsets = grid.offsets()
    number_of_step: dict[tuple[int, int], int] = {}
    for h in range(2):
        for w in range(3):
            for h_from in range(2):
                for w_from in range(3):
                    number = int(offsets[h * 3 + w, h_from * 3 + w_from])
                    assert number_of_step.setdefault((h - h_from, w - w_from), number) == number
    assert sorted(number_of_step.values()) == list(range(grid.n_offsets))


def test_the_layers_of_the_paper_for_21_pixels():
    layers = Grid(4, 4, 84, 84).layers()
    assert [(layer.kernel, layer.stride, layer.out) for layer in layers] == [
        ((5, 5), (2, 2), (9, 9)),
        ((4, 4), (1, 1), (6, 6)),
    ]


def test_the_layer_of_the_released_code_for_12_pixels():
    (layer,) = Grid(7, 7, 84, 84).layers()
    assert (layer.kernel, layer.stride, layer.out) == ((4, 4), (2, 2), (5, 5))


@pytest.mark.parametrize("cell_h", range(1, 85))
def test_transposed_layers_come_back_to_exactly_the_cell(cell_h):
    cell_w = 85 - cell_h
    size = (cell_h, cell_w)
    layers = Grid(1, 1, cell_h, cell_w).layers()
    for layer in layers:
        assert layer.size == size
        size = layer.out
    assert max(size) <= 6
    for layer in reversed(layers):
        size = tuple((n - 1) * s + k for n, s, k in zip(size, layer.stride, layer.kernel, strict=True))
        assert size == layer.size
    assert size == (cell_h, cell_w)
