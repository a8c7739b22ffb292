"""ControlModels: what they see of a frame."""

from dataclasses import replace

import pytest
import torch

from megareward.control.config import ExecutionConfig
from megareward.control.observation import anchor_noise
from megareward.errors import UsageError
from tests.unit.control.small_models import PX_H, PX_W, SMALL, learner, models, rollout


def test_normalised_frames_are_centred_per_pixel_and_scaled_as_a_whole():
    own = learner()
    frames, actions, first = rollout(0, P=0)
    own.update(frames, actions, first)
    x = frames.flatten(0, 1).double()
    expected = (x - x.mean(0)) / x.std(0, correction=0).mean()
    torch.testing.assert_close(own.models.normaliser(frames).flatten(0, 1).double(), expected, rtol=1e-5, atol=1e-5)


def test_fused_kernels_on_a_cpu_are_refused():
    with pytest.raises(UsageError, match=r"execution\.fused is on"):
        models(replace(SMALL, execution=ExecutionConfig(fused="on")))


@pytest.mark.parametrize("kind", ["cell", "pixel", "gauss"])
def test_the_anchor_lifts_or_lowers_whole_cells_or_pixels(kind):
    grid = models().grid
    noise = anchor_noise(kind, 50, grid, torch.Generator().manual_seed(0), torch.device("cpu"))
    assert noise.shape == (50, PX_H, PX_W)
    cells = grid.to_cells(noise).flatten(2)  # (50, HW, pixels)
    assert (cells == cells[..., :1]).all() == (kind != "pixel")
    assert (noise.abs() == 1).all() == (kind != "gauss")  # never near the mean, which any source could draw
    assert noise.mean().abs() < 0.2
