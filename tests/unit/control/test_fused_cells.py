"""From bytes to rows, and from hidden rows to scores: the Triton kernels against their plain forms."""

import pytest
import torch
from torch import Tensor

from megareward.control.grid import Grid
from megareward.control.observation import cell_rows
from tests.unit.control.triton_device import DEVICE

fused_cells = pytest.importorskip("megareward.control.fast.fused_cells")


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


@pytest.mark.parametrize(("H", "W", "px_h", "px_w"), [(2, 3, 42, 36), (4, 4, 84, 84), (1, 2, 10, 14)])
@pytest.mark.parametrize(("K", "anchored", "strided"), [(1, False, False), (4, True, False), (1, True, True)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 1e-2)])
def test_rows_made_from_bytes_are_the_scaled_cells_and_zeros(H, W, px_h, px_w, K, anchored, strided, dtype, tolerance):
    grid, N = Grid(H, W, px_h, px_w), 3
    stored = torch.randint(256, (N, K + strided, px_h, px_w), generator=torch.Generator().manual_seed(0))
    frames = stored.to(DEVICE, torch.uint8)[:, int(strided) :]
    mean, std = 100 + random(px_h, px_w, seed=1), torch.tensor(17.0, device=DEVICE)
    noise = random(N, px_h, px_w, seed=2) if anchored else None
    scaled = (frames - mean) / std
    if noise is not None:
        scaled[:, -1] += 0.5 * noise
    expected = cell_rows(scaled, grid)
    rows = fused_cells.cell_rows(frames, mean, std, noise, 0.5, grid, dtype)
    n_in = expected.shape[-1]
    assert rows.dtype == dtype
    assert rows.shape == (N, H * W, n_in + -n_in % 8)
    torch.testing.assert_close(rows[..., :n_in].float(), expected, atol=tolerance, rtol=tolerance)
    assert not rows[..., n_in:].any()


@pytest.mark.parametrize(("M", "G"), [(7, 12), (65, 512), (1, 3)])
def test_scores_are_the_last_layer_of_gamma(M, G):
    hidden, weight = random(M, G, seed=1), random(G, seed=2)
    expected = torch.nn.functional.leaky_relu(hidden, 0.01).tanh() @ weight
    torch.testing.assert_close(fused_cells.scores(hidden, weight), expected, atol=1e-4, rtol=1e-4)
