"""mini-road: a walker crosses a road with cars. The cars never react: nothing but the walker is ever under control.

So survival alone is no play (who stays on the pavement lives for ever), and a reward for latent control finds nothing.
"""

from typing import ClassVar, NamedTuple

import torch

from megareward.envs.mini.base import MiniGame, Outcome
from megareward.envs.mini.drawing import FIELD, WALL_LEVEL, Canvas, Shape
from megareward.envs.mini.hashed_rng import Draws
from megareward.envs.mini.motion import direction, touch
from megareward.types import Bool, Float, Int, Tensor

SIDE = 2.0
"""Of the walker."""
WALKER_X = (FIELD - SIDE) / 2
PAVEMENT, START_Y, GOAL_Y = 26.0, 24.0, 10.0
WALKER_SPEED = 2.0
CAR_WIDTH, CAR_HEIGHT = 5.0, 2.0
LANES = (12.0, 16.0, 20.0)
"""Tops of the lanes, each with one car."""
CAR_SPEEDS = (1.0, -0.75, 0.5)
"""Units per step, to the right."""
ROUND = FIELD + CAR_WIDTH
"""A car that has left on one side comes back on the other."""


class Road(NamedTuple):
    """In playfield units; x and y are left and top edges."""

    walker_y: Float[Tensor, "N"]
    cars_x: Float[Tensor, "N lanes"]


class MiniRoad(MiniGame[Road]):
    action_names = ("noop", "up", "down")
    random_ranges: ClassVar = {f"place_{lane}": 32 for lane in range(len(LANES))}

    def begin(self, draws: Draws) -> Road:
        places = torch.stack([draws[f"place_{lane}"] for lane in range(len(LANES))], 1)
        return Road(torch.full_like(places[:, 0], START_Y), places)

    def advance(self, game: Road, actions: Int[Tensor, "N"], draws: Draws) -> tuple[Road, Outcome]:
        back_again = self._arrived(game) | self._is_hit(game)
        y = torch.where(back_again, START_Y, game.walker_y)
        y = (y + WALKER_SPEED * direction(actions, minus=1, plus=2)).clamp(GOAL_Y, START_Y)
        speeds = torch.tensor(CAR_SPEEDS, device=self.device)
        cars = game.cars_x + speeds + CAR_WIDTH  # (N, lanes), from 0 on
        cars = torch.where(cars < 0, cars + ROUND, torch.where(cars >= ROUND, cars - ROUND, cars)) - CAR_WIDTH
        after = Road(y, cars)
        hit = self._is_hit(after)
        return after, Outcome((self._arrived(after) & ~hit).float(), hit, won=torch.zeros_like(hit))

    def _arrived(self, game: Road) -> Bool[Tensor, "N"]:
        return game.walker_y <= GOAL_Y

    def _is_hit(self, game: Road) -> Bool[Tensor, "N"]:
        lanes = torch.tensor(LANES, device=self.device)
        same_height = touch(game.walker_y[:, None], SIDE, lanes, CAR_HEIGHT)
        at_x = torch.full_like(game.cars_x, WALKER_X)
        return (same_height & touch(at_x, SIDE, game.cars_x, CAR_WIDTH)).any(1)

    def player_offset(self, game: Road) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
        return game.walker_y - START_Y, torch.zeros_like(game.walker_y)

    def scenery(self, canvas: Canvas) -> list[Shape]:
        return [canvas.ceiling(), Shape("wall", canvas.box(PAVEMENT, 0.0, FIELD - PAVEMENT, FIELD, WALL_LEVEL))]

    def objects(self, game: Road, canvas: Canvas) -> list[Shape]:
        cars = [
            Shape("cars", canvas.box(top, game.cars_x[:, lane], CAR_HEIGHT, CAR_WIDTH, level=150))
            for lane, top in enumerate(LANES)
        ]
        return [*cars, Shape("walker", canvas.box(game.walker_y, WALKER_X, SIDE, SIDE, level=230))]
