"""ControlModels: what they see of a frame."""

from dataclasses import replace

import pytest
import torch

from megareward.control.config import ExecutionConfig
from megareward.control.grid import Grid
from megareward.control.models import chosen_bf16
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


@pytest.mark.parametrize(
    ("switch", "px", "has_instructions", "expected"),
    [
        ("auto", 84, True, True),
        ("auto", 84, False, False),  # no instructions
        ("auto", 32, True, False),  # cells of mini games
        ("on", 32, False, True),
        ("off", 84, True, False),
    ],
)
def test_a_cpu_uses_bfloat16_for_large_cells_where_it_can(monkeypatch, switch, px, has_instructions, expected):
    monkeypatch.setattr("megareward.control.models.multiplies_bfloat16", lambda device: has_instructions)
    assert chosen_bf16(switch, torch.device("cpu"), Grid(4, 4, px, px)) is expected


@pytest.mark.parametrize("kind", ["cell", "pixel", "gauss"])
def test_the_anchor_lifts_or_lowers_whole_cells_or_pixels(kind):
    grid = models().grid
    noise = anchor_noise(kind, 50, grid, torch.Generator().manual_seed(0), torch.device("cpu"))
    assert noise.shape == (50, PX_H, PX_W)
    cells = grid.to_cells(noise).flatten(2)  # (50, HW, pixels)
    assert (cells == cells[..., :1]).all() == (kind != "pixel")
    assert (noise.abs() == 1).all() == (kind != "gauss")  # never near the mean, which any source could draw
    assert noise.mean().abs() < 0.2
