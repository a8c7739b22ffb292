"""The rules of the two games that settings are judged on, and what can be controlled in them."""

import torch

from megareward.control.grid import Grid
from megareward.counterfactual.mini import Branches
from megareward.envs.mini.base import MiniGame
from megareward.envs.mini.crate import FLOOR, START_X, START_Y
from megareward.envs.mini.games import make_mini
from megareward.envs.mini.road import CAR_WIDTH, GOAL_Y, LANES, WALKER_X
from megareward.envs.mini.road import START_Y as PAVEMENT_Y

NOOP, UP, DOWN = 0, 1, 2
LEFT, RIGHT, AHEAD, BACK = 1, 2, 3, 4


def place(env: MiniGame, **values: float) -> None:
    state = env.state_dict()
    env.load_state_dict(state | {name: torch.full_like(state[name], value) for name, value in values.items()})


def act(env: MiniGame, action: int, times: int = 1):
    for _ in range(times):
        step = env.step(torch.full((env.n_envs,), action))
    return step


def controlled(env: MiniGame, actions: torch.Tensor, lags: int) -> tuple[torch.Tensor, list[dict]]:
    """Cells that any of the last actions controls, step by step, and those in which each object shows."""
    grid = Grid(4, 4, 32, 32)
    branches, found, masks = Branches(env, grid, lags), [], []
    for a in actions:
        step = env.step(a)
        found.append((branches.step(a, step.first, step.frames) > 0).any(1))
        masks.append({name: grid.to_cells(mask).any(-1).any(-1) for name, mask in env.object_masks().items()})
    return torch.stack(found), masks


def test_cars_drive_on_whatever_the_walker_does_and_come_back_on_the_other_side():
    env = make_mini("mini-road", 2)
    place(env, walker_y=PAVEMENT_Y, cars_x=31.0)
    act(env, NOOP, times=4)
    assert env.game.cars_x[0].tolist() == [-2.0, 28.0, -4.0]
    assert (env.game.cars_x >= -CAR_WIDTH).all()


def test_a_crossing_scores_once_and_the_walker_begins_again_on_the_pavement():
    env = make_mini("mini-road", 2)
    place(env, walker_y=GOAL_Y + 2, cars_x=-5.0)
    assert act(env, UP).rewards.tolist() == [1.0, 1.0]
    step = act(env, NOOP)
    assert step.rewards.tolist() == [0.0, 0.0]
    assert (env.game.walker_y == PAVEMENT_Y).all()
    assert not step.terminated.any()


def test_a_car_costs_a_walker():
    env = make_mini("mini-road", 2)
    place(env, walker_y=LANES[2] + 2, cars_x=WALKER_X - 1)
    act(env, UP)
    assert env.progress.lives.tolist() == [2, 2]
    act(env, NOOP)
    assert (env.game.walker_y == PAVEMENT_Y).all()


def test_nothing_but_the_walker_is_ever_controlled():
    env = make_mini("mini-road", 8)
    actions = torch.randint(3, (60, 8), generator=torch.Generator().manual_seed(0))
    found, masks = controlled(env, actions, lags=20)
    assert found.any()
    columns = found.view(60, 8, 4, 4).any(2)
    assert not columns[..., 0].any()  # the walker keeps to the two columns in the middle
    assert not columns[..., 3].any()
    assert any(mask["cars"].view(8, 4, 4)[..., 0].any() for mask in masks)


def test_a_crate_is_pushed_ahead_of_the_worker_and_delivered_in_a_dock():
    env = make_mini("mini-crate", 2)
    place(env, worker_x=16, worker_y=16, crate_x=10, crate_y=18, guard_y=8, guard_vy=0)
    act(env, LEFT)
    assert env.game.crate_x.tolist() == [10.0, 10.0]
    act(env, LEFT)
    assert (env.game.worker_x[0], env.game.crate_x[0]) == (12.0, 8.0)
    act(env, LEFT)
    assert act(env, LEFT).rewards.tolist() == [1.0, 1.0]
    step = act(env, NOOP)
    assert step.rewards.tolist() == [0.0, 0.0]
    assert (env.game.crate_x > 4).all()


def test_at_a_wall_neither_crate_nor_worker_moves():
    env = make_mini("mini-crate", 2)
    place(env, worker_x=12, worker_y=FLOOR - 8, crate_x=12, crate_y=FLOOR - 4, guard_y=8, guard_vy=0)
    act(env, BACK, times=3)
    assert env.game.worker_y.tolist() == [FLOOR - 8] * 2
    assert env.game.crate_y.tolist() == [FLOOR - 4] * 2


def test_the_guard_costs_a_worker():
    env = make_mini("mini-crate", 2)
    place(env, worker_x=16, worker_y=20, crate_x=8, crate_y=8, guard_y=21, guard_vy=0)
    act(env, RIGHT)
    assert env.progress.lives.tolist() == [2, 2]
    act(env, NOOP)
    assert (env.game.worker_x[0], env.game.worker_y[0]) == (START_X, START_Y)


def test_the_crate_is_controlled_after_it_was_pushed_and_not_before():
    env = make_mini("mini-crate", 1)
    place(env, worker_x=24, worker_y=24, crate_x=12, crate_y=24, guard_y=8, guard_vy=0)
    waiting, masks = controlled(env, torch.tensor([[NOOP], [LEFT], [LEFT]]), lags=10)
    assert not (waiting[-1] & masks[-1]["crate"] & ~masks[-1]["worker"]).any()
    pushing, masks = controlled(env, torch.tensor([[LEFT]] * 5), lags=10)
    crate = masks[-1]["crate"] & ~masks[-1]["worker"]
    assert crate.any()
    assert (pushing[-1] & crate).any()
