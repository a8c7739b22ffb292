"""mini-breakout: a bar at the bottom, a ball, and a wall of bricks that is rebuilt when it is cleared."""

from typing import ClassVar, NamedTuple

import torch

from megareward.envs.mini.base import MiniGame, Outcome
from megareward.envs.mini.drawing import CEILING, FIELD, Canvas, Shape, cross
from megareward.envs.mini.hashed_rng import Draws
from megareward.envs.mini.motion import bounce, choose, deflect, direction, touch
from megareward.types import Bool, Float, Int, Tensor

BALL = 2.0
BAR_WIDTH, BAR_HEIGHT, BAR_Y = 6.0, 2.0, 28.0
BAR_SPEED, BALL_SPEED = 2.0, 1.0
"""Units per step; the ball's is its vertical speed."""
BAR_MIDDLE = (FIELD - BAR_WIDTH) / 2
BRICK_ROWS, BRICK_COLUMNS = 3, 8
BRICK_HEIGHT, BRICK_WIDTH, BRICK_GAP = 2.0, 4.0, 1.0
"""The gap is only drawn: for the ball, bricks fill the wall."""
WALL_TOP = 10.0
WALL_BOTTOM = WALL_TOP + BRICK_ROWS * BRICK_HEIGHT
BRICK_LEVELS = (180, 150, 120)


class Breakout(NamedTuple):
    """In playfield units; x and y are left and top edges."""

    bar_x: Float[Tensor, "N"]
    ball_x: Float[Tensor, "N"]
    ball_y: Float[Tensor, "N"]
    ball_vx: Float[Tensor, "N"]
    ball_vy: Float[Tensor, "N"]
    bricks: Bool[Tensor, "N rows columns"]
    """The bricks that are still there."""


class MiniBreakout(MiniGame[Breakout]):
    action_names = ("noop", "left", "right")
    random_ranges: ClassVar = {"place": 31, "slope": 8}

    def begin(self, draws: Draws) -> Breakout:
        zeros = torch.zeros(self.n_envs, device=self.device)
        bricks = torch.ones(self.n_envs, BRICK_ROWS, BRICK_COLUMNS, dtype=torch.bool, device=self.device)
        return self._launch(Breakout(zeros + BAR_MIDDLE, zeros, zeros, zeros, zeros, bricks), draws)

    def advance(self, game: Breakout, actions: Int[Tensor, "N"], draws: Draws) -> tuple[Breakout, Outcome]:
        ball_is_lost = game.ball_y >= FIELD - BALL
        game = choose(ball_is_lost, self._launch(game, draws), game)

        bar_x = game.bar_x + BAR_SPEED * direction(actions, minus=1, plus=2)
        bar_x = bar_x.clamp(0.0, FIELD - BAR_WIDTH)

        # Sideways first, then up or down: the ball knows which side of a brick it met, and turns back from it.
        x, vx = bounce(game.ball_x + game.ball_vx, game.ball_vx, 0.0, FIELD - BALL)
        from_side = game.bricks & _bricks_at(game.ball_y, x)  # (N, rows, columns)
        hit = from_side.any(2).any(1)
        x, vx = torch.where(hit, game.ball_x, x), torch.where(hit, -vx, vx)
        bricks = game.bricks & ~from_side

        y, vy = bounce(game.ball_y + game.ball_vy, game.ball_vy, CEILING, FIELD)
        from_below = bricks & _bricks_at(y, x)  # or from above
        hit = from_below.any(2).any(1)
        y, vy = torch.where(hit, game.ball_y, y), torch.where(hit, -vy, vy)
        bricks = bricks & ~from_below

        surface = BAR_Y - BALL
        returned = (game.ball_y < surface) & (y >= surface) & touch(x, BALL, bar_x, BAR_WIDTH)
        y, vy = torch.where(returned, 2 * surface - y, y), torch.where(returned, -vy, vy)
        vx = torch.where(returned, deflect(x - bar_x - (BAR_WIDTH - BALL) / 2), vx)

        # A new wall waits until the ball is below it, lest the ball be walled in.
        cleared = ~bricks.any(2).any(1) & (y >= WALL_BOTTOM)
        rewards = (from_side | from_below).sum((1, 2)).float()
        missed = y >= FIELD - BALL
        after = Breakout(bar_x, x, y, vx, vy, bricks | cleared[:, None, None])
        return after, Outcome(rewards, missed, won=torch.zeros_like(missed))

    def _launch(self, game: Breakout, draws: Draws) -> Breakout:
        """A new ball falls from just below the wall."""
        return game._replace(
            ball_x=draws["place"],
            ball_y=torch.full_like(game.ball_y, WALL_BOTTOM + 1),
            ball_vx=(draws["slope"] - 3.5) / 4,
            ball_vy=torch.full_like(game.ball_vy, BALL_SPEED),
        )

    def player_offset(self, game: Breakout) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
        return torch.zeros_like(game.bar_x), game.bar_x - BAR_MIDDLE

    def scenery(self, canvas: Canvas) -> list[Shape]:
        return [canvas.ceiling()]

    def objects(self, game: Breakout, canvas: Canvas) -> list[Shape]:
        bar = Shape("bar", canvas.box(BAR_Y, game.bar_x, BAR_HEIGHT, BAR_WIDTH, level=200))
        ball = Shape("ball", canvas.box(game.ball_y, game.ball_x, BALL, BALL, level=255))
        return [*_brick_shapes(game.bricks, canvas), bar, ball]


def _bricks_at(ball_y: Float[Tensor, "N"], ball_x: Float[Tensor, "N"]) -> Bool[Tensor, "N rows columns"]:
    """The places of the wall that a ball here would overlap."""
    tops = WALL_TOP + BRICK_HEIGHT * torch.arange(BRICK_ROWS, device=ball_y.device)
    lefts = BRICK_WIDTH * torch.arange(BRICK_COLUMNS, device=ball_x.device)
    in_row = touch(ball_y[:, None], BALL, tops, BRICK_HEIGHT)
    in_column = touch(ball_x[:, None], BALL, lefts, BRICK_WIDTH)
    return in_row[:, :, None] & in_column[:, None, :]


def _brick_shapes(bricks: Bool[Tensor, "N rows columns"], canvas: Canvas) -> list[Shape]:
    """One shape per row of the wall, each row in its own grey."""
    across = canvas.columns / BRICK_WIDTH  # (N or 1, px_w), in bricks
    index = across.floor().long()
    inside = (index >= 0) & (index < BRICK_COLUMNS) & (across - index < 1 - BRICK_GAP / BRICK_WIDTH)
    index = index.clamp(0, BRICK_COLUMNS - 1).expand(len(bricks), -1)
    shapes = []
    for row, level in enumerate(BRICK_LEVELS):
        standing = bricks[:, row].gather(1, index) & inside  # (N, px_w)
        down = canvas.rows - (WALL_TOP + row * BRICK_HEIGHT)
        in_row = (down >= 0) & (down < BRICK_HEIGHT)  # (N or 1, px_h)
        shapes.append(Shape("bricks", cross(in_row, standing, level)))
    return shapes
