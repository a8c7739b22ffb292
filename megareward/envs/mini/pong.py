"""mini-pong: our paddle on the right, a ball, and on the left a slow opponent or a wall.

The opponent follows a ball that comes to it but is slower than a steep one: who hits with the paddle's edge wins.
"""

from typing import ClassVar, NamedTuple

import torch

from megareward.envs.mini.base import MiniGame, Outcome
from megareward.envs.mini.config import PongConfig
from megareward.envs.mini.drawing import CEILING, FIELD, WALL_LEVEL, Canvas, Shape
from megareward.envs.mini.hashed_rng import Draws
from megareward.envs.mini.motion import bounce, choose, deflect, direction, touch
from megareward.types import Float, Int, Tensor

FLOOR = 30.0
BALL = 2.0
PADDLE_HEIGHT, PADDLE_WIDTH = 6.0, 2.0
PADDLE_X, OPPONENT_X = 28.0, 2.0
PADDLE_SPEED, OPPONENT_SPEED, BALL_SPEED = 2.0, 0.375, 1.0
"""Units per step; the ball's is its horizontal speed."""
PADDLE_MIDDLE = (CEILING + FLOOR - PADDLE_HEIGHT) / 2


class Pong(NamedTuple):
    """In playfield units; x and y are left and top edges."""

    paddle_y: Float[Tensor, "N"]
    opponent_y: Float[Tensor, "N"]
    ball_x: Float[Tensor, "N"]
    ball_y: Float[Tensor, "N"]
    ball_vx: Float[Tensor, "N"]
    ball_vy: Float[Tensor, "N"]
    points: Float[Tensor, "N"]
    """Misses of the opponent."""


class MiniPong(MiniGame[Pong]):
    action_names = ("noop", "up", "down")
    random_ranges: ClassVar = {"height": 21, "slope": 8, "side": 2}
    config: PongConfig

    def begin(self, draws: Draws) -> Pong:
        zeros = torch.zeros(self.n_envs, device=self.device)
        middle = zeros + PADDLE_MIDDLE
        return self._serve(Pong(middle, middle, zeros, zeros, zeros, zeros, zeros), draws)

    def advance(self, game: Pong, actions: Int[Tensor, "N"], draws: Draws) -> tuple[Pong, Outcome]:
        ball_is_out = (game.ball_x <= 0) | (game.ball_x >= FIELD - BALL)
        game = choose(ball_is_out, self._serve(game, draws), game)

        paddle_y = game.paddle_y + PADDLE_SPEED * direction(actions, minus=1, plus=2)
        paddle_y = paddle_y.clamp(CEILING, FLOOR - PADDLE_HEIGHT)
        y, vy = bounce(game.ball_y + game.ball_vy, game.ball_vy, CEILING, FLOOR - BALL)
        x, vx = game.ball_x + game.ball_vx, game.ball_vx

        front = PADDLE_X - BALL
        returned = (game.ball_x < front) & (x >= front) & touch(y, BALL, paddle_y, PADDLE_HEIGHT)
        x = torch.where(returned, 2 * front - x, x)
        vx = torch.where(returned, -vx, vx)
        vy = torch.where(returned, deflect(y - paddle_y - (PADDLE_HEIGHT - BALL) / 2), vy)
        missed = x >= FIELD - BALL

        opponent_y, points = game.opponent_y, game.points
        back = OPPONENT_X + PADDLE_WIDTH
        reaches_back = (game.ball_x > back) & (x <= back)
        if self.config.opponent:
            lag = y - opponent_y - (PADDLE_HEIGHT - BALL) / 2
            opponent_y = opponent_y + lag.clamp(-OPPONENT_SPEED, OPPONENT_SPEED) * (vx < 0)
            opponent_y = opponent_y.clamp(CEILING, FLOOR - PADDLE_HEIGHT)
            reaches_back &= touch(y, BALL, opponent_y, PADDLE_HEIGHT)
            vy = torch.where(reaches_back, deflect(y - opponent_y - (PADDLE_HEIGHT - BALL) / 2), vy)
            scored = x <= 0
            points = points + scored.float()
            rewards, won = scored.float() - missed.float(), points >= self.config.points
        else:
            rewards, won = returned.float(), torch.zeros_like(missed)
        x = torch.where(reaches_back, 2 * back - x, x)
        vx = torch.where(reaches_back, -vx, vx)
        return Pong(paddle_y, opponent_y, x, y, vx, vy, points), Outcome(rewards, missed, won)

    def _serve(self, game: Pong, draws: Draws) -> Pong:
        """A new ball from the middle, to either side."""
        return game._replace(
            ball_x=torch.full_like(game.ball_x, FIELD / 2 - BALL / 2),
            ball_y=CEILING + draws["height"],
            ball_vx=BALL_SPEED * (2 * draws["side"] - 1),
            ball_vy=(draws["slope"] - 3.5) / 4,
        )

    def player_offset(self, game: Pong) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
        return game.paddle_y - PADDLE_MIDDLE, torch.zeros_like(game.paddle_y)

    def scenery(self, canvas: Canvas) -> list[Shape]:
        floor = Shape("wall", canvas.box(FLOOR, 0.0, FIELD - FLOOR, FIELD, WALL_LEVEL))
        wall = Shape("wall", canvas.box(CEILING, 0.0, FLOOR - CEILING, OPPONENT_X + PADDLE_WIDTH, WALL_LEVEL))
        return [canvas.ceiling(), floor] if self.config.opponent else [canvas.ceiling(), floor, wall]

    def objects(self, game: Pong, canvas: Canvas) -> list[Shape]:
        shapes = [
            Shape("paddle", canvas.box(game.paddle_y, PADDLE_X, PADDLE_HEIGHT, PADDLE_WIDTH, level=200)),
            Shape("ball", canvas.box(game.ball_y, game.ball_x, BALL, BALL, level=255)),
        ]
        if self.config.opponent:
            opponent = canvas.box(game.opponent_y, OPPONENT_X, PADDLE_HEIGHT, PADDLE_WIDTH, level=150)
            shapes.append(Shape("opponent", opponent))
        return shapes
