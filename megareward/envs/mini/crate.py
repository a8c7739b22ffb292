"""mini-crate: a worker pushes a crate to either side of the room, past a guard who walks up and down.

Control has one latent level: worker to crate. The guard cannot be controlled, only met.
"""

from typing import ClassVar, NamedTuple

import torch

from megareward.envs.mini.base import MiniGame, Outcome
from megareward.envs.mini.drawing import CEILING, FIELD, WALL_LEVEL, Canvas, Shape
from megareward.envs.mini.hashed_rng import Draws
from megareward.envs.mini.motion import bounce, choose, direction, touch
from megareward.types import Bool, Float, Int, Tensor

SIDE = 4.0
"""Of the worker and of the crate."""
GUARD = 2.0
FLOOR = 30.0
SPEED, GUARD_SPEED = 2.0, 0.5
"""Units per step."""
START_X, START_Y = (FIELD - SIDE) / 2, 16.0
GUARD_X = 20.0
DOCK = 4.0
"""Depth of the two docks: a crate that stands in one is delivered."""


class Crate(NamedTuple):
    """In playfield units; x and y are left and top edges."""

    worker_x: Float[Tensor, "N"]
    worker_y: Float[Tensor, "N"]
    crate_x: Float[Tensor, "N"]
    crate_y: Float[Tensor, "N"]
    guard_y: Float[Tensor, "N"]
    guard_vy: Float[Tensor, "N"]


class MiniCrate(MiniGame[Crate]):
    action_names = ("noop", "left", "right", "up", "down")
    random_ranges: ClassVar = {"x": 9, "y": 3, "guard": 19}

    def begin(self, draws: Draws) -> Crate:
        zeros = torch.zeros(self.n_envs, device=self.device)
        speed = zeros + GUARD_SPEED
        worker = Crate(zeros + START_X, zeros + START_Y, zeros, zeros, CEILING + draws["guard"], speed)
        return _new_crate(worker, draws)

    def advance(self, game: Crate, actions: Int[Tensor, "N"], draws: Draws) -> tuple[Crate, Outcome]:
        game = choose(_delivered(game), _new_crate(game, draws), game)
        game = choose(_is_caught(game), _new_worker(game, draws), game)
        step_x = SPEED * direction(actions, minus=1, plus=2)
        step_y = SPEED * direction(actions, minus=3, plus=4)
        x = (game.worker_x + step_x).clamp(0.0, FIELD - SIDE)
        y = (game.worker_y + step_y).clamp(CEILING, FLOOR - SIDE)
        pushes = _overlap(x, y, game.crate_x, game.crate_y)
        crate_x = torch.where(pushes, game.crate_x + step_x, game.crate_x).clamp(0.0, FIELD - SIDE)
        crate_y = torch.where(pushes, game.crate_y + step_y, game.crate_y).clamp(CEILING, FLOOR - SIDE)
        stuck = _overlap(x, y, crate_x, crate_y)  # the crate is at a wall, and so the worker stays
        x, y = torch.where(stuck, game.worker_x, x), torch.where(stuck, game.worker_y, y)
        guard_y, guard_vy = bounce(game.guard_y + game.guard_vy, game.guard_vy, CEILING, FLOOR - GUARD)
        after = Crate(x, y, crate_x, crate_y, guard_y, guard_vy)
        caught = _is_caught(after)
        return after, Outcome(_delivered(after).float(), caught, won=torch.zeros_like(caught))

    def player_offset(self, game: Crate) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
        return game.worker_y - START_Y, game.worker_x - START_X

    def scenery(self, canvas: Canvas) -> list[Shape]:
        docks = [Shape("dock", canvas.box(CEILING, x, FLOOR - CEILING, 1.0, 60)) for x in (0.0, FIELD - 1)]
        return [canvas.ceiling(), Shape("wall", canvas.box(FLOOR, 0.0, FIELD - FLOOR, FIELD, WALL_LEVEL)), *docks]

    def objects(self, game: Crate, canvas: Canvas) -> list[Shape]:
        return [
            Shape("crate", canvas.box(game.crate_y, game.crate_x, SIDE, SIDE, level=170)),
            Shape("guard", canvas.box(game.guard_y, GUARD_X, GUARD, GUARD, level=130)),
            Shape("worker", canvas.box(game.worker_y, game.worker_x, SIDE, SIDE, level=230)),
        ]


def _new_crate(game: Crate, draws: Draws) -> Crate:
    """Two units apart, so that the worker, who moves by two, can always touch it flush; never on the worker."""
    x, y = DOCK + 2 + 2 * draws["x"], CEILING + 4 + 4 * draws["y"]
    blocked = _overlap(x, y, game.worker_x, game.worker_y)
    away = torch.where(game.worker_y > CEILING + 2 * SIDE, CEILING, FLOOR - SIDE)
    return game._replace(crate_x=x, crate_y=torch.where(blocked, away, y))


def _new_worker(game: Crate, draws: Draws) -> Crate:
    """Back to the start, with a crate in a new place."""
    fresh = game._replace(
        worker_x=torch.full_like(game.worker_x, START_X), worker_y=torch.full_like(game.worker_y, START_Y)
    )
    return _new_crate(fresh, draws)


def _overlap(x: Tensor, y: Tensor, other_x: Tensor, other_y: Tensor) -> Bool[Tensor, "N"]:
    return touch(x, SIDE, other_x, SIDE) & touch(y, SIDE, other_y, SIDE)


def _delivered(game: Crate) -> Bool[Tensor, "N"]:
    return (game.crate_x <= DOCK) | (game.crate_x >= FIELD - DOCK - SIDE)


def _is_caught(game: Crate) -> Bool[Tensor, "N"]:
    across = touch(torch.full_like(game.worker_x, GUARD_X), GUARD, game.worker_x, SIDE)
    return across & touch(game.guard_y, GUARD, game.worker_y, SIDE)
