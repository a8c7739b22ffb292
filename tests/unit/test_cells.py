"""Cells of a grid that show something else, for arrays and tensors alike."""

import numpy as np
import pytest
import torch

from megareward.cells import any_in_cells


@pytest.mark.parametrize("lead", [(), (5,), (2, 3)])
@pytest.mark.parametrize(("H", "W", "px_h", "px_w"), [(2, 3, 8, 15), (4, 4, 12, 12), (1, 1, 5, 7), (6, 2, 6, 2)])
def test_a_cell_is_set_exactly_if_one_of_its_pixels_is_whether_numpy_or_torch(H, W, px_h, px_w, lead):
    pixels = np.random.default_rng(0).random((*lead, px_h, px_w)) < 0.05
    expected = np.zeros((*lead, H * W), dtype=bool)
    for *which, y, x in zip(*pixels.nonzero(), strict=True):
        expected[(*which, y // (px_h // H) * W + x // (px_w // W))] = True
    found = any_in_cells(pixels, H, W)
    assert isinstance(found, np.ndarray)
    assert np.array_equal(found, expected)
    of_torch = any_in_cells(torch.from_numpy(pixels), H, W)
    assert of_torch.dtype == torch.bool
    assert torch.equal(of_torch, torch.from_numpy(expected))


def test_each_pixel_alone_sets_one_cell():
    alone = torch.eye(4 * 9, dtype=torch.bool).reshape(4 * 9, 4, 9)
    cells = any_in_cells(alone, 2, 3)
    assert (cells.sum(1) == 1).all()
    assert (cells.sum(0) == 6).all()
    assert not any_in_cells(torch.zeros(4, 9, dtype=torch.bool), 2, 3).any()
