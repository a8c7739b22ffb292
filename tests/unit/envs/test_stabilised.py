"""A camera that the player moves, held still: known shifts are found, and everything is drawn where it belongs."""

import pytest
import torch

from megareward.envs.mini import MINI_GAMES, mini_config
from megareward.envs.mini.games import make_mini
from megareward.envs.stabilised import Stabilised, camera_shift, held_still, rolled, shifts

N, H, W = 5, 20, 26
FOLLOWED = ("mini-pong", "mini-breakout")
"""Their scenery says where the camera is, and it never jumps."""


def texture(seed: int = 0) -> torch.Tensor:
    """A world of 60 x 60 blocks of two pixels."""
    generator = torch.Generator().manual_seed(seed)
    blocks = torch.randint(0, 256, (30, 30), dtype=torch.uint8, generator=generator)
    return blocks.repeat_interleave(2, 0).repeat_interleave(2, 1)


def seen_from(world: torch.Tensor, y: int, x: int) -> torch.Tensor:
    return world[y : y + H, x : x + W]


def random_actions(env, steps: int) -> torch.Tensor:
    return torch.randint(env.n_actions, (steps, env.n_envs), generator=torch.Generator().manual_seed(1))


def test_every_shift_within_reach_is_found_although_something_moves():
    world, reach = texture(), 4
    all_of_them = torch.tensor(shifts(reach))
    before = seen_from(world, 15, 15).repeat(len(all_of_them), 1, 1)
    now = torch.stack([seen_from(world, 15 + down, 15 + right) for down, right in all_of_them.tolist()])
    before[:, 2:6, 3:7] = 255
    now[:, 9:13, 3:7] = 255
    assert len(all_of_them) == 2 * reach * (reach + 1) + 1
    assert torch.equal(camera_shift(before, now, reach), all_of_them)


def test_where_the_picture_repeats_itself_the_nearest_shift_is_meant():
    columns = torch.arange(40) % 4 < 2
    stripes = (columns * 200).to(torch.uint8).expand(H, -1)
    before, now = stripes[None, :, :W], stripes[None, :, 1 : W + 1]
    assert camera_shift(before, now, 4).tolist() == [[0, 1]]  # and not 3 to the left


def test_what_moves_by_itself_is_no_camera():
    before = torch.zeros(4, H, W, dtype=torch.uint8)
    now = before.clone()
    before[0, 5:7, 5:7], now[0, 5:7, 6:8] = 255, 255  # a ball in front of nothing
    before[1], now[1] = seen_from(texture(), 3, 3), 255 - seen_from(texture(), 3, 3)  # a flash
    before[2], now[2] = seen_from(texture(), 3, 3), seen_from(texture(1), 3, 3)  # another room
    assert camera_shift(before, now, 4).tolist() == [[0, 0]] * 4


def test_a_picture_is_rolled_by_its_own_shift_and_back():
    pictures = torch.arange(2 * 3 * 4).view(2, 3, 4)
    by = torch.tensor([[1, 0], [-1, 2]])
    there = rolled(pictures, by)
    for n in range(2):
        assert torch.equal(there[n], pictures[n].roll(by[n].tolist(), (0, 1)))
    assert torch.equal(rolled(there, -by), pictures)


@pytest.mark.parametrize("name", FOLLOWED)
def test_the_camera_of_a_game_is_followed_exactly_and_its_picture_is_that_of_a_still_one(name):
    moving = make_mini(name, N, mini_config(name, moving_camera=True, max_steps=40))
    still = make_mini(name, N, mini_config(name, max_steps=40))
    held, here = Stabilised(moving, reach=4), torch.arange(32)
    held.reset(3), still.reset(3)
    went = 0
    for actions in random_actions(still, 90):
        held.send(actions)
        step, wanted, at = held.recv(), still.step(actions), moving.camera_in_pixels()
        assert torch.equal(held.position, at)
        went = max(went, int(at.abs().max()))
        for n, (down, right) in enumerate(at.tolist()):
            if moving.camera()[n].frac().any():
                continue  # half a pixel: what lies between two is rounded to the other one
            on_screen = ((here - down >= 0) & (here - down < 32))[:, None] & ((here - right >= 0) & (here - right < 32))
            assert torch.equal(step.frames[n][on_screen], wanted.frames[n][on_screen])
    assert went >= 4


def test_far_from_where_it_began_the_picture_is_a_window_that_follows_the_camera():
    world = texture().repeat(1, 2)
    held = held_still(torch.stack([seen_from(world, 10, 10 + x) for x in range(40)]), reach=4)
    slack = W // 4
    assert held.position.tolist() == [[0, x] for x in range(40)]
    for x, picture in enumerate(held.frames):
        window = max(0, x - slack)  # all of it has been seen, if not in this frame
        assert torch.equal(picture.roll(-window, 1), seen_from(world, 10, 10 + window))


@pytest.mark.parametrize("name", MINI_GAMES)
def test_without_a_moving_camera_nothing_is_changed(name):
    extras = {"death_flash": True, "distractor": True, "max_steps": 60}
    held, plain = (make_mini(name, N, mini_config(name, **extras)) for _ in range(2))
    held = Stabilised(held, reach=4)
    assert torch.equal(held.reset(3).frames, plain.reset(3).frames)
    for actions in random_actions(plain, 100):
        held.send(actions)
        assert torch.equal(held.recv().frames, plain.step(actions).frames)


def test_where_scenery_says_nothing_the_picture_is_shown_as_it_is():
    moving = make_mini("mini-demon", N, mini_config("mini-demon", moving_camera=True))
    held = Stabilised(moving, reach=4)
    held.reset(3)
    for actions in random_actions(held, 60):
        held.send(actions)
        assert torch.equal(held.recv().frames, moving.frames())
    assert moving.camera_in_pixels().any()


def test_a_lost_life_keeps_the_camera_and_a_new_game_begins_where_the_first_did():
    options = {"moving_camera": True, "lives": 2, "life_loss_is_terminal": True, "max_steps": 70}
    moving = make_mini("mini-breakout", N, mini_config("mini-breakout", **options))
    held = Stabilised(moving, reach=4)
    held.reset(3)
    lives, games = 0, 0
    before = torch.zeros(N, dtype=torch.bool)
    for actions in random_actions(held, 150):
        held.send(actions)
        step = held.recv()
        assert torch.equal(held.position, moving.camera_in_pixels())
        assert not held.position[before].any()
        lives += int((step.first & ~before & held.position.any(1)).sum())
        games += int(before.sum())
        before = step.episode_over
    assert lives
    assert games


def test_a_recorded_game_is_held_still_as_a_running_one_is():
    moving = make_mini("mini-pong", 1, mini_config("mini-pong", moving_camera=True))
    held = Stabilised(moving, reach=4)
    shown, seen, position = [held.reset(3).frames], [moving.frames()], [held.position.clone()]
    for actions in random_actions(held, 40):
        held.send(actions)
        shown.append(held.recv().frames)
        seen.append(moving.frames())
        position.append(held.position.clone())
    found = held_still(torch.cat(seen), reach=4)
    assert torch.equal(found.frames, torch.cat(shown))
    assert torch.equal(found.position, torch.cat(position))
    assert position[-1].any()
