"""mini-demon: a gun that moves and fires, a bullet, and an enemy above that wanders, drops bombs and, once hit, burns
and comes back elsewhere. Control has two latent levels: gun to bullet, bullet to enemy.
"""

from typing import ClassVar, NamedTuple

import torch

from megareward.envs.mini.base import MiniGame, Outcome
from megareward.envs.mini.drawing import CEILING, FIELD, WALL_LEVEL, Canvas, Shape
from megareward.envs.mini.hashed_rng import Draws
from megareward.envs.mini.motion import GONE, bounce, choose, direction, touch
from megareward.types import Bool, Float, Int, Tensor

GROUND = 30.0
GUN_WIDTH, GUN_HEIGHT = 4.0, 3.0
GUN_Y, GUN_MIDDLE = GROUND - GUN_HEIGHT, (FIELD - GUN_WIDTH) / 2
SHOT = 2.0
"""Side of a bullet and of a bomb."""
ENEMY_WIDTH, ENEMY_HEIGHT = 4.0, 4.0
ENEMY_LOWEST = 12.0
"""So that the enemy keeps to the second row of a 4 x 4 grid of cells."""
GUN_SPEED, BULLET_SPEED, BOMB_SPEED = 2.0, 2.0, 1.0
"""Units per step."""
BURN_STEPS, BLAST = 4, 6.0
"""How long an enemy that was hit burns, and how large."""


class Demon(NamedTuple):
    """In playfield units; x and y are left and top edges. Bullet and bomb are at height GONE while there is none."""

    gun_x: Float[Tensor, "N"]
    bullet_x: Float[Tensor, "N"]
    bullet_y: Float[Tensor, "N"]
    enemy_x: Float[Tensor, "N"]
    enemy_y: Float[Tensor, "N"]
    enemy_vx: Float[Tensor, "N"]
    enemy_vy: Float[Tensor, "N"]
    burning: Float[Tensor, "N"]
    """Steps until an enemy that was hit comes back; 0 while it is alive."""
    bomb_x: Float[Tensor, "N"]
    bomb_y: Float[Tensor, "N"]


class MiniDemon(MiniGame[Demon]):
    action_names = ("noop", "left", "right", "fire")
    random_ranges: ClassVar = {"x": 29, "y": 5, "vx": 5, "vy": 3, "turn": 8, "bomb": 4}

    def begin(self, draws: Draws) -> Demon:
        zeros = torch.zeros(self.n_envs, device=self.device)
        gone = zeros + GONE
        return Demon(zeros + GUN_MIDDLE, zeros, gone, *_new_enemy(draws), zeros, zeros, gone)

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
        hit = touch(bullet_x, SHOT, game.enemy_x, ENEMY_WIDTH) & touch(bullet_y, SHOT, game.enemy_y, ENEMY_HEIGHT)
        hit &= alive
        bullet_y = torch.where(hit, GONE, bullet_y)

        drops = alive & ~hit & (game.bomb_y == GONE) & (draws["bomb"] == 0)
        bomb_x = torch.where(drops, game.enemy_x + (ENEMY_WIDTH - SHOT) / 2, game.bomb_x)
        bomb_y = torch.where(drops, game.enemy_y + ENEMY_HEIGHT, game.bomb_y + BOMB_SPEED)
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
        """A living enemy flies on and sometimes turns; a burning one burns, and comes back at a place of its own."""
        new_x, new_y, new_vx, new_vy = _new_enemy(draws)
        turns, burns, returns = draws["turn"] == 0, game.burning > 0, game.burning == 1
        vx = torch.where(turns, new_vx, game.enemy_vx)
        vy = torch.where(turns, new_vy, game.enemy_vy)
        x, vx = bounce(game.enemy_x + vx * ~burns, vx, 0.0, FIELD - ENEMY_WIDTH)
        y, vy = bounce(game.enemy_y + vy * ~burns, vy, CEILING, ENEMY_LOWEST)
        return game._replace(
            enemy_x=torch.where(returns, new_x, x),
            enemy_y=torch.where(returns, new_y, y),
            enemy_vx=vx,
            enemy_vy=vy,
            burning=(game.burning - 1).clamp(min=0),
        )

    def player_offset(self, game: Demon) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
        return torch.zeros_like(game.gun_x), game.gun_x - GUN_MIDDLE

    def scenery(self, canvas: Canvas) -> list[Shape]:
        return [canvas.ceiling(), Shape("wall", canvas.box(GROUND, 0.0, FIELD - GROUND, FIELD, WALL_LEVEL))]

    def objects(self, game: Demon, canvas: Canvas) -> list[Shape]:
        living_y = torch.where(game.burning == 0, game.enemy_y, GONE)
        burning_y = torch.where(game.burning > 0, game.enemy_y, GONE)
        return [
            Shape("gun", canvas.box(GUN_Y + 1, game.gun_x, GUN_HEIGHT - 1, GUN_WIDTH, level=200)),
            Shape("gun", canvas.box(GUN_Y, game.gun_x + 1, GUN_HEIGHT, GUN_WIDTH - 2, level=200)),
            Shape("enemy", canvas.box(living_y, game.enemy_x + 1, ENEMY_HEIGHT, ENEMY_WIDTH - 2, level=170)),
            Shape("enemy", canvas.box(living_y + 1, game.enemy_x, ENEMY_HEIGHT - 2, ENEMY_WIDTH, level=170)),
            Shape("explosion", canvas.box(burning_y - 1, game.enemy_x - 1, BLAST, BLAST, level=225)),
            Shape("bomb", canvas.box(game.bomb_y, game.bomb_x, SHOT, SHOT, level=130)),
            Shape("bullet", canvas.box(game.bullet_y, game.bullet_x, SHOT, SHOT, level=255)),
        ]


def _new_enemy(draws: Draws) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Place and speed of a new enemy; a turning one takes the speed only."""
    return draws["x"], CEILING + draws["y"], (draws["vx"] - 2) / 2, (draws["vy"] - 1) / 2


def _gun_is_hit(game: Demon) -> Bool[Tensor, "N"]:
    return touch(game.bomb_x, SHOT, game.gun_x, GUN_WIDTH) & touch(game.bomb_y, SHOT, GUN_Y, GUN_HEIGHT)


def _next_gun(game: Demon) -> Demon:
    """After a death nothing is in the air."""
    gone = torch.full_like(game.gun_x, GONE)
    return game._replace(bullet_y=gone, bomb_y=gone)
