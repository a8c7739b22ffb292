"""mini-demon: a gun that moves and fires, a bullet, and a demon above that wanders, drops bombs and, once hit, burns
and comes back elsewhere. Control has two levels: we steer the gun, the gun the bullet, the bullet the demon's fate.
"""

from typing import NamedTuple

import torch

from megareward.envs.mini.base import MiniGame, Outcome
from megareward.envs.mini.drawing import CEILING, FIELD, WALL_LEVEL, Canvas, Shape
from megareward.envs.mini.draws import Draws
from megareward.envs.mini.motion import GONE, bounce, choose, direction, touch
from megareward.types import Bool, Float, Int, Tensor

GROUND = 30.0
GUN_WIDTH, GUN_HEIGHT = 4.0, 3.0
GUN_Y, GUN_MIDDLE = GROUND - GUN_HEIGHT, (FIELD - GUN_WIDTH) / 2
SHOT = 2.0
"""Side of a bullet and of a bomb."""
DEMON_WIDTH, DEMON_HEIGHT = 4.0, 4.0
DEMON_LOWEST = 12.0
"""So that the demon keeps to the second row of a 4 x 4 grid of cells."""
GUN_SPEED, BULLET_SPEED, BOMB_SPEED = 2.0, 2.0, 1.0
"""Units per step."""
BURN_STEPS = 4
TURN_PROBABILITY, BOMB_PROBABILITY = 1 / 8, 1 / 8
"""Per step; a bomb falls only if none is in the air."""

DRAW_X, DRAW_Y, DRAW_VX, DRAW_VY, DRAW_TURN, DRAW_BOMB = range(6)


class Demon(NamedTuple):
    """In playfield units; x and y are left and top edges. Bullet and bomb are at height GONE while there is none."""

    gun_x: Float[Tensor, "N"]
    bullet_x: Float[Tensor, "N"]
    bullet_y: Float[Tensor, "N"]
    demon_x: Float[Tensor, "N"]
    demon_y: Float[Tensor, "N"]
    demon_vx: Float[Tensor, "N"]
    demon_vy: Float[Tensor, "N"]
    burning: Float[Tensor, "N"]
    """Steps until a demon that was hit comes back; 0 while it is alive."""
    bomb_x: Float[Tensor, "N"]
    bomb_y: Float[Tensor, "N"]


class MiniDemon(MiniGame[Demon]):
    action_names = ("noop", "left", "right", "fire")

    def begin(self, draws: Draws) -> Demon:
        zeros = torch.zeros(self.n_envs, device=self.device)
        gone = zeros + GONE
        return Demon(zeros + GUN_MIDDLE, zeros, gone, *_new_demon(draws), zeros, zeros, gone)

    def advance(self, game: Demon, actions: Int[Tensor, "N"], draws: Draws) -> tuple[Demon, Outcome]:
        game = choose(_gun_is_hit(game), _next_gun(game), game)
        gun_x = game.gun_x + GUN_SPEED * direction(actions, minus=1, plus=2)
        gun_x = gun_x.clamp(0.0, FIELD - GUN_WIDTH)

        fires = (actions == 3) & (game.bullet_y == GONE)
        bullet_x = torch.where(fires, gun_x + (GUN_WIDTH - SHOT) / 2, game.bullet_x)
        bullet_y = torch.where(fires, GUN_Y - SHOT, game.bullet_y - BULLET_SPEED)
        bullet_y = torch.where(bullet_y < CEILING, GONE, bullet_y)

        game = self._wander(game, draws)
        alive = game.burning == 0
        hit = (
            alive & touch(bullet_x, SHOT, game.demon_x, DEMON_WIDTH) & touch(bullet_y, SHOT, game.demon_y, DEMON_HEIGHT)
        )
        bullet_y = torch.where(hit, GONE, bullet_y)

        drops = alive & ~hit & (game.bomb_y == GONE) & draws.chance(DRAW_BOMB, BOMB_PROBABILITY)
        bomb_x = torch.where(drops, game.demon_x + (DEMON_WIDTH - SHOT) / 2, game.bomb_x)
        bomb_y = torch.where(drops, game.demon_y + DEMON_HEIGHT, game.bomb_y + BOMB_SPEED)
        bomb_y = torch.where((bomb_y > GROUND - SHOT) | (bomb_y < CEILING), GONE, bomb_y)

        game = game._replace(
            gun_x=gun_x,
            bullet_x=bullet_x,
            bullet_y=bullet_y,
            burning=torch.where(hit, BURN_STEPS, game.burning),
            bomb_x=bomb_x,
            bomb_y=bomb_y,
        )
        return game, Outcome(hit.float(), _gun_is_hit(game), won=torch.zeros_like(hit))

    def _wander(self, game: Demon, draws: Draws) -> Demon:
        """A living demon flies on and sometimes turns; a burning one burns, and comes back at a place of its own."""
        new_x, new_y, new_vx, new_vy = _new_demon(draws)
        turns, burns, returns = draws.chance(DRAW_TURN, TURN_PROBABILITY), game.burning > 0, game.burning == 1
        vx = torch.where(turns, new_vx, game.demon_vx)
        vy = torch.where(turns, new_vy, game.demon_vy)
        x, vx = bounce(game.demon_x + vx * ~burns, vx, 0.0, FIELD - DEMON_WIDTH)
        y, vy = bounce(game.demon_y + vy * ~burns, vy, CEILING, DEMON_LOWEST)
        return game._replace(
            demon_x=torch.where(returns, new_x, x),
            demon_y=torch.where(returns, new_y, y),
            demon_vx=vx,
            demon_vy=vy,
            burning=(game.burning - 1).clamp(min=0),
        )

    def player_offset(self, game: Demon) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
        return torch.zeros_like(game.gun_x), game.gun_x - GUN_MIDDLE

    def scenery(self, canvas: Canvas) -> list[Shape]:
        return [canvas.ceiling(), Shape("wall", canvas.box(GROUND, 0.0, FIELD - GROUND, FIELD, WALL_LEVEL))]

    def objects(self, game: Demon, canvas: Canvas) -> list[Shape]:
        living_y = torch.where(game.burning == 0, game.demon_y, GONE)
        burning_y = torch.where(game.burning > 0, game.demon_y, GONE)
        return [
            Shape("gun", canvas.box(GUN_Y + 1, game.gun_x, GUN_HEIGHT - 1, GUN_WIDTH, level=200)),
            Shape("gun", canvas.box(GUN_Y, game.gun_x + 1, GUN_HEIGHT, GUN_WIDTH - 2, level=200)),
            Shape("enemy", canvas.box(living_y, game.demon_x + 1, DEMON_HEIGHT, DEMON_WIDTH - 2, level=170)),
            Shape("enemy", canvas.box(living_y + 1, game.demon_x, DEMON_HEIGHT - 2, DEMON_WIDTH, level=170)),
            Shape(
                "explosion", canvas.box(burning_y - 1, game.demon_x - 1, DEMON_HEIGHT + 2, DEMON_WIDTH + 2, level=225)
            ),
            Shape("bomb", canvas.box(game.bomb_y, game.bomb_x, SHOT, SHOT, level=130)),
            Shape("bullet", canvas.box(game.bullet_y, game.bullet_x, SHOT, SHOT, level=255)),
        ]


def _new_demon(draws: Draws) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Place and speed of a demon; a turning demon takes the speed only."""
    x = draws.integer(DRAW_X, int(FIELD - DEMON_WIDTH) + 1)
    y = CEILING + draws.integer(DRAW_Y, int(DEMON_LOWEST - CEILING) + 1)
    vx = (draws.integer(DRAW_VX, 5) - 2) / 2
    vy = (draws.integer(DRAW_VY, 3) - 1) / 2
    return x, y, vx, vy


def _gun_is_hit(game: Demon) -> Bool[Tensor, "N"]:
    return touch(game.bomb_x, SHOT, game.gun_x, GUN_WIDTH) & touch(
        game.bomb_y, SHOT, torch.full_like(game.gun_x, GUN_Y), GUN_HEIGHT
    )


def _next_gun(game: Demon) -> Demon:
    """After a death nothing is in the air."""
    gone = torch.full_like(game.gun_x, GONE)
    return game._replace(bullet_y=gone, bomb_y=gone)
