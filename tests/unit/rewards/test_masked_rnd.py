"""RND behind a mask: what is not under control is not there."""

from dataclasses import dataclass, replace

import pytest
import torch

from megareward.rewards import METHODS
from megareward.rewards.rnd import over_the_frame
from megareward.rewards.settings import RndConfig
from megareward.rollout import Recorded
from tests.unit.rewards.recordings import (
    CELLS,
    HW,
    SMALL,
    N,
    T,
    assert_resets_alone_teach_nothing,
    assert_resets_do_not_matter,
    noise,
    world,
)


@dataclass(frozen=True)
class OfPixels(RndConfig):
    """A mask from outside, with a value for each pixel."""

    name, mask, masks_pixels = "p-rnd", "pixels", True


KINDS = {name: METHODS[name].config for name in ("g-rnd", "a-rnd", "m-rnd")} | {"p-rnd": OfPixels}
MASKS = {name: kind.mask for name, kind in KINDS.items() if kind.masks_by_mean}
every_mask = pytest.mark.parametrize("method", MASKS)
every_kind = pytest.mark.parametrize("method", [*MASKS, "m-rnd"])


def built(method: str, own_world=None):
    [(stream, reward)] = METHODS["rnd"].build(KINDS[method](epochs=1, minibatches=2), own_world or world())
    assert stream.name == method
    return reward


def with_map(method: str, seed: int = 0) -> Recorded:
    """Random frames under a random map, in which the first two cells are far below the others, or a random mask."""
    recorded = noise(seed=seed, first=())
    if method == "m-rnd":
        moved = torch.rand(T + 1, N, SMALL[0] * SMALL[1], generator=torch.Generator().manual_seed(seed)) < 0.3
        recorded.fields["masks"] = moved.to(torch.uint8) * 255
        return recorded
    size = HW if method != "p-rnd" else SMALL[0] * SMALL[1]
    values = torch.rand(T + 1, N, size, generator=torch.Generator().manual_seed(seed)) + 1
    values[..., :2] -= 1
    return replace(recorded, fields={**recorded.fields, MASKS[method]: values})


def elsewhere(recorded: Recorded, reward, noisy: bool) -> Recorded:
    """The same with other pixels where nothing is shown, or where it is."""
    shown = over_the_frame(reward.shown(recorded).flatten(0, 1), reward.cells, SMALL).unflatten(0, (T, N))
    assert shown.any()
    assert not shown.all()
    other = noise(seed=9, first=()).frames[1:]
    frames = recorded.frames.clone()
    frames[1:] = torch.where(shown == noisy, other, frames[1:])
    return Recorded(frames, recorded.actions, *[recorded.first] * 3, None, recorded.fields)


@every_kind
def test_noise_outside_of_the_mask_pays_nothing_bit_for_bit(method):
    reward = built(method)
    reward.update(with_map(method))
    recorded = with_map(method, seed=1)
    paid = reward.compute(recorded)
    assert torch.equal(reward.compute(elsewhere(recorded, reward, noisy=False)), paid)
    assert not torch.equal(reward.compute(elsewhere(recorded, reward, noisy=True)), paid)


@every_mask
def test_a_cell_is_shown_while_it_has_more_than_its_own_mean_of_all_rollouts_before(method):
    reward, before = built(method), []
    for seed in range(3):
        recorded = with_map(method, seed)
        values = recorded.fields[MASKS[method]][1:]
        usual = torch.cat(before).mean(0) if before else torch.zeros(values.shape[-1])
        assert torch.equal(reward.shown(recorded), values > usual)
        reward.update(recorded)
        before.append(values.flatten(0, 1))


def test_cells_are_painted_over_the_frame():
    shown = torch.zeros(1, HW, dtype=torch.bool)
    shown[0, 4] = True  # of 2 x 3 cells on 32 x 36 pixels: the lower row, in the middle
    painted = over_the_frame(shown, CELLS, SMALL)[0]
    assert painted.sum() == 16 * 12
    assert painted[16:, 12:24].all()


@pytest.mark.parametrize("method", ["g-rnd", "a-rnd"])
def test_resets_neither_pay_nor_teach(method):
    def make(own_world, **settings):
        return built(method, own_world)

    assert_resets_do_not_matter(make)
    assert_resets_alone_teach_nothing(make)


@every_mask
def test_what_a_cell_usually_has_is_saved(method):
    one, two = built(method), built(method)
    one.update(with_map(method))
    two.load_state_dict(one.state_dict())
    assert torch.equal(one.shown(with_map(method, 1)), two.shown(with_map(method, 1)))


@every_kind
def test_novelty_is_told_apart_inside_and_outside_of_the_mask(method):
    reward = built(method)
    reward.update(with_map(method))
    recorded = with_map(method, seed=1)
    frames, shown = recorded.frames[1:].flatten(0, 1), reward.shown(recorded).flatten(0, 1)
    found = reward.novelty(frames, shown)
    assert found["novelty_inside"].item() == pytest.approx(reward.compute(recorded).mean().item(), rel=1e-5)
    swapped = reward.novelty(frames, ~shown)
    assert torch.equal(swapped["novelty_inside"], found["novelty_outside"])
    assert not torch.equal(found["novelty_inside"], found["novelty_outside"])
    assert found.keys() < reward.update(recorded).keys()
