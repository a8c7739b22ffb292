"""Mini games whose truth can be written down without branching: the audit finds it, cell by cell and lag by lag."""

import torch

from megareward.control.grid import Grid
from megareward.counterfactual.mini import Branches
from megareward.envs.mini import mini_config
from megareward.envs.mini.games import make_mini

GRID = Grid(4, 8, 32, 32)


def cells(*masks):
    """(HW,) the cells that hold a pixel of any mask."""
    union = torch.stack([mask.expand(1, 32, 32)[0] for mask in masks]).any(0)
    return GRID.to_cells(union).flatten(1).any(-1)


def box(top, left, height, width):
    mask = torch.zeros(32, 32, dtype=torch.bool)
    mask[max(int(top), 0) : int(top + height), max(int(left), 0) : int(left + width)] = True
    return mask


def paddle_after(y, actions):
    """mini-pong's paddle, by hand: two units a step between the ceiling (8) and the floor (30), six units tall."""
    for action in actions:
        y = min(max(y + {0: 0, 1: -2, 2: 2}[action], 8), 24)
    return y


def test_an_action_controls_the_paddle_of_mini_pong_until_a_wall_makes_the_past_forgotten():
    env, lags = make_mini("mini-pong", 1, mini_config("mini-pong", noisy_tv=True, distractor=True)), 9
    branches = Branches(env, GRID, lags)
    actions = [
        1,
        1,
        0,
        2,
        1,
        1,
        1,
        1,
        1,
    ]  # the ball needs longer to come from the middle; the ceiling is met on the way
    middle = 16
    for t in range(1, len(actions) + 1):
        step = env.step(torch.tensor(actions[t - 1 : t]))
        changed = branches.step(torch.tensor(actions[t - 1 : t]), step.first, step.frames)
        y = paddle_after(middle, actions[:t])
        for n in range(1, lags + 1):
            expected = torch.zeros(GRID.n_cells)
            for other in {0, 1, 2} - {actions[t - n]} if n <= t else ():
                other_y = paddle_after(middle, [*actions[: t - n], other, *actions[t - n + 1 : t]])
                expected += cells(box(y, 28, 6, 2) ^ box(other_y, 28, 6, 2))
            assert torch.equal(changed[0, n - 1], expected), (t, n)


def test_firing_controls_the_bullet_on_its_whole_way_and_the_gun_that_did_not_move():
    env, lags = make_mini("mini-demon", 1), 5
    branches = Branches(env, GRID, lags)
    gun, way_up = 14, [25, 23, 21, 19, 17]
    for t, height in enumerate(way_up, start=1):
        action = torch.tensor([3 if t == 1 else 0])
        step = env.step(action)
        changed = branches.step(action, step.first, step.frames)
        bullet = cells(box(height, gun + 1, 2, 2))
        gun_cells = cells(*(gun_at(gun) ^ gun_at(x) for x in (gun - 2, gun + 2)))
        assert torch.equal(changed[0, t - 1] > 0, bullet | gun_cells), t
        assert (changed[0, t - 1][bullet & ~gun_cells] == 3).all()  # without firing there is no bullet at all


def gun_at(x):
    return box(28, x, 2, 4) | box(27, x + 1, 3, 2)


def test_nothing_that_moves_by_itself_is_ever_controlled():
    env = make_mini("mini-breakout", 5, mini_config("mini-breakout", noisy_tv=True, distractor=True))
    branches, generator = Branches(env, GRID, 20), torch.Generator().manual_seed(0)
    strip = torch.arange(GRID.n_cells) < GRID.W  # above the ceiling: television and distractor
    ever = torch.zeros(GRID.n_cells)
    for _ in range(60):
        actions = torch.randint(env.n_actions, (5,), generator=generator)
        step = env.step(actions)
        ever += branches.step(actions, step.first, step.frames).sum((0, 1))
    assert not ever[strip].any()
    assert ever[~strip].any()
