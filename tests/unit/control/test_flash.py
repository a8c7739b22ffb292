"""A step that changes most of the screen at once gives no control and passes none on."""

from dataclasses import replace

import pytest
import torch

from megareward.control.config import LatentConfig
from megareward.control.flash import is_flash
from megareward.envs.mini import MINI_GAMES, mini_config
from megareward.envs.mini.games import make_mini
from megareward.errors import UsageError
from megareward.observers.tracker import ControlTracker
from tests.unit.control.small_models import NONE_FIRST, SMALL, A, N, models

HW, PIXELS = 6, 16 * 24


def test_more_than_the_share_by_hand():
    before = torch.zeros(3, 2, 5, dtype=torch.uint8)
    now = before.clone()
    now[1].view(-1)[:5] = 1  # half of the ten, which is not more than half
    now[2].view(-1)[:6] = 255
    assert is_flash(before, now, 0.5).tolist() == [False, False, True]
    assert is_flash(before, now, 0.6).tolist() == [False, False, False]
    assert is_flash(before, now, 0.0).tolist() == [False, True, True]


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_in_a_flash_nothing_is_gained_and_every_cell_relies_on_itself(share):
    config = replace(SMALL, latent=LatentConfig(flash=share), rtm=replace(SMALL.rtm, attention="softmax"))
    tracker, generator = ControlTracker(models(config), N), torch.Generator().manual_seed(0)
    stack = torch.randint(255, (N, 3, 16, 24), dtype=torch.uint8, generator=generator)
    tracker.step(stack, torch.zeros(N, dtype=torch.long), NONE_FIRST)
    tracker.g.copy_(torch.rand(N, HW, generator=generator))
    g_prev, shares = tracker.g.clone(), torch.tensor([0.2, 0.4, 0.6, 1.0])
    newest = stack[:, -1].clone().flatten(1)
    for pixels, changes in zip(newest, shares, strict=True):
        pixels[torch.randperm(PIXELS, generator=generator)[: int(changes * PIXELS)]] += 1
    stack = torch.cat([stack[:, 1:], newest.view(N, 1, 16, 24)], 1)
    control = tracker.step(stack, torch.full((N,), A - 1), NONE_FIRST, with_relation=True)
    on_itself = (control.relation == torch.eye(HW)).flatten(1).all(-1)
    assert on_itself.tolist() == (shares > share).tolist()
    torch.testing.assert_close(control.g[on_itself], 0.99 * g_prev[on_itself])
    assert (control.g > g_prev)[~on_itself].any(-1).all()


@pytest.mark.parametrize("extras", [{}, {"noisy_tv": True}, {"moving_camera": True}, {"death_flash": True}])
@pytest.mark.parametrize("name", MINI_GAMES)
def test_the_only_flashes_of_mini_games_are_those_of_a_death(name, extras):
    env = make_mini(name, 8, mini_config(name, **extras))
    generator, flashes = torch.Generator().manual_seed(0), 0
    before = env.reset(0).frames
    for _ in range(150):
        step = env.step(torch.randint(env.n_actions, (8,), generator=generator))
        flashes += int((is_flash(before, step.frames, 0.5) & ~step.first).sum())
        before = step.frames
    assert (flashes > 0) == ("death_flash" in extras)


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(UsageError, match=r"latent\.flash is"):
        LatentConfig(flash=share)
