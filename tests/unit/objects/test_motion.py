"""Motion segmentation in closed form: warping, DSSIM, and what a known motion costs."""

import pytest
import torch
import torch.nn.functional as F

from megareward.objects.motion import (
    Motion,
    MotionHeads,
    MotionSegmentation,
    dssim,
    motion_loss,
    pointwise,
    resized,
    warp,
)

B, K, PX_H, PX_W = 2, 3, 20, 28


def square(y: int, x: int) -> torch.Tensor:
    """A bright square of 4 pixels on black."""
    frame = torch.zeros(PX_H, PX_W, dtype=torch.uint8)
    frame[y : y + 4, x : x + 4] = 255
    return frame


def motion(masks: torch.Tensor, ways: list[tuple[float, float]], camera: tuple[float, float] = (0.0, 0.0)) -> Motion:
    return Motion(masks[None].float(), torch.tensor([ways]), torch.tensor([camera]))


def moved_square() -> tuple[torch.Tensor, Motion]:
    """Five down and two right; the masks are the places where it is and where it was."""
    stacks = torch.stack([square(3, 4), square(8, 6)])[None]  # (1, 2, px_h, px_w)
    masks = torch.stack([square(8, 6) > 0, square(3, 4) > 0, torch.zeros(PX_H, PX_W, dtype=torch.bool)])
    return stacks, motion(masks, [(5.0, 2.0), (-6.0, 0.0), (9.0, 9.0)])


def test_the_last_frame_warped_by_its_true_motion_is_the_newest():
    stacks, true = moved_square()
    torch.testing.assert_close(warp(stacks[:, 0] / 255, true.flow), stacks[:, 1] / 255)
    assert motion_loss(true, stacks, 0.0).item() == pytest.approx(0.0, abs=1e-6)
    still = true._replace(translations=torch.zeros(1, K, 2))
    assert motion_loss(still, stacks, 0.0) > 0.01


def test_warping_and_resizing_are_torchs_own():
    generator = torch.Generator().manual_seed(3)
    frames, flow = (
        torch.rand(B, PX_H, PX_W, generator=generator),
        6 * torch.randn(B, 2, PX_H, PX_W, generator=generator),
    )
    rows = 2 * (torch.arange(PX_H)[:, None] - flow[:, 0]) / (PX_H - 1) - 1
    columns = 2 * (torch.arange(PX_W) - flow[:, 1]) / (PX_W - 1) - 1
    grid = torch.stack([columns, rows], -1)
    sampled = F.grid_sample(frames[:, None], grid, padding_mode="border", align_corners=True)[:, 0]
    torch.testing.assert_close(warp(frames, flow), sampled, atol=1e-5, rtol=1e-4)
    small = torch.rand(B, 3, 5, 7, generator=generator)
    torch.testing.assert_close(resized(small, (10, 13)), F.interpolate(small, (10, 13), mode="bilinear"))


def test_a_convolution_of_one_pixel_is_torchs_own_and_so_are_its_gradients():
    convolution, x = torch.nn.Conv2d(3, 5, 1), torch.randn(2, 3, 4, 6, requires_grad=True)
    wanted, found = convolution(x), pointwise(convolution, x)
    torch.testing.assert_close(found, wanted)
    learnt = [x, *convolution.parameters()]
    each = [torch.autograd.grad((out**3).sum(), learnt) for out in (wanted, found)]
    torch.testing.assert_close(each[1], each[0], rtol=1e-4, atol=1e-5)


def test_a_camera_moves_everything_and_is_no_object():
    frames = torch.randint(0, 256, (1, PX_H, PX_W), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    seen = motion(torch.zeros(K, PX_H, PX_W), [(1.0, 1.0)] * K, camera=(0.0, 3.0))
    warped = warp(frames / 255, seen.flow)
    torch.testing.assert_close(warped[:, :, 3:], frames[:, :, :-3] / 255)
    assert not seen.union().any()


def test_the_effort_is_size_times_way_and_the_camera_is_as_large_as_the_frame():
    _, true = moved_square()
    share = 16 / (PX_H * PX_W)
    assert true.effort.item() == pytest.approx((7 * share + 6 * share) / K)
    assert true._replace(camera=torch.tensor([[1.0, -2.0]])).effort.item() == pytest.approx((13 * share + 3) / K)


def test_the_union_shows_what_has_moved_and_nothing_else():
    stacks, true = moved_square()
    assert torch.equal(true.union()[0] > 0, (stacks[0] > 0).any(0))


def test_dssim_is_0_for_the_same_at_most_1_and_local():
    one = torch.rand(B, PX_H, PX_W, generator=torch.Generator().manual_seed(1))
    assert dssim(one, one).abs().max() < 1e-6
    other = one.clone()
    other[:, 0, 0] = 1 - other[:, 0, 0]
    differs = dssim(one, other)
    assert differs[:, 0, 0].min() > 1e-3
    assert differs[:, 6:].abs().max() < 1e-6
    assert dssim(one, 1 - one).max() <= 1


def test_dssim_is_the_formula_of_wang_et_al():
    """At one pixel, written out."""
    one, two = torch.rand(2, 1, PX_H, PX_W, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    y, x = 9, 13
    way = torch.arange(-5, 6, dtype=torch.float64)
    window = torch.exp(-(way[:, None] ** 2 + way**2) / (2 * 1.5**2))
    window /= window.sum()
    a, b = (image[0, y - 5 : y + 6, x - 5 : x + 6] for image in (one, two))
    mean_a, mean_b = (window * a).sum(), (window * b).sum()
    var_a, var_b = (window * (a - mean_a) ** 2).sum(), (window * (b - mean_b) ** 2).sum()
    cov = (window * (a - mean_a) * (b - mean_b)).sum()
    ssim = (2 * mean_a * mean_b + 1e-4) * (2 * cov + 9e-4) / ((mean_a**2 + mean_b**2 + 1e-4) * (var_a + var_b + 9e-4))
    torch.testing.assert_close(dssim(one, two)[0, y, x], (1 - ssim) / 2)


@pytest.mark.parametrize("detail", [True, False])
@pytest.mark.parametrize("shape", [(32, 33), (84, 84)])
def test_every_weight_learns_and_the_masks_lie_over_the_frame(shape, detail):
    torch.manual_seed(0)
    network = MotionSegmentation(shape, K, 4, detail)
    stacks = torch.randint(0, 256, (B, 4, *shape), dtype=torch.uint8)
    seen = network(stacks)
    assert seen.masks.shape == (B, K, *shape)
    assert seen.translations.shape == (B, K, 2)
    motion_loss(seen, stacks, 1.0).backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in network.parameters())


def test_at_first_hardly_anything_moves():
    torch.manual_seed(0)
    heads = MotionHeads((32, 32), 16, 20, None, detail=False)
    seen = heads(torch.zeros(1, 16), torch.zeros(1, 2, 32, 32, dtype=torch.uint8))
    assert seen.masks.max() < 0.1
    assert not seen.camera.any()
    assert seen.translations.abs().max() > 1
