import pytest
import torch

from megareward.envs.mini import BreakoutConfig
from megareward.envs.mini.breakout import MiniBreakout
from megareward.envs.mini.games import make_mini

NOOP, LEFT, RIGHT = 0, 1, 2


def breakout(n_envs: int = 3, **options) -> MiniBreakout:
    return make_mini("mini-breakout", n_envs, BreakoutConfig(**options))


def place(env: MiniBreakout, **values: float) -> None:
    state = env.state_dict()
    env.load_state_dict(state | {name: torch.full_like(state[name], value) for name, value in values.items()})


def leave_only(env: MiniBreakout, row: int, column: int) -> None:
    place(env, bricks=False)
    env.game.bricks[:, row, column] = True


def act(env: MiniBreakout, action: int, times: int = 1):
    for _ in range(times):
        step = env.step(torch.full((env.n_envs,), action))
    return step


def follow_the_ball(env: MiniBreakout) -> torch.Tensor:
    """Send the ball to the side where more bricks stand."""
    game = env.game
    aim = torch.where(game.bricks[:, :, :4].sum((1, 2)) > game.bricks[:, :, 4:].sum((1, 2)), -2.0, 2.0)
    error = game.ball_x - game.bar_x - 2 - aim
    return torch.where(error >= 1, RIGHT, torch.where(error <= -1, LEFT, NOOP))


def test_bar_moves_two_units_and_stops_at_the_borders():
    env = breakout()
    act(env, LEFT)
    assert env.game.bar_x.tolist() == [11.0] * 3
    act(env, LEFT, times=8)
    assert env.game.bar_x.tolist() == [0.0] * 3
    act(env, RIGHT, times=20)
    assert env.game.bar_x.tolist() == [26.0] * 3


def test_a_brick_hit_from_below_vanishes_scores_once_and_turns_the_ball():
    env = breakout()
    place(env, ball_x=9, ball_y=16, ball_vx=0, ball_vy=-1)
    step = act(env, NOOP)
    assert step.rewards.tolist() == [1.0] * 3
    standing = torch.ones(3, 8, dtype=torch.bool)
    standing[2, 2] = False
    assert (env.game.bricks == standing).all()
    assert (env.game.ball_y[0], env.game.ball_vy[0]) == (16, 1)
    assert act(env, NOOP).rewards.tolist() == [0.0] * 3
    assert (env.game.bricks == standing).all()


def test_a_brick_hit_from_the_side_turns_the_ball_sideways():
    env = breakout()
    leave_only(env, row=1, column=4)  # x 16 to 20, y 12 to 14
    place(env, ball_x=13.5, ball_y=12, ball_vx=1, ball_vy=-1)
    assert act(env, NOOP).rewards.tolist() == [1.0] * 3
    assert (env.game.ball_x[0], env.game.ball_vx[0]) == (13.5, -1)
    assert (env.game.ball_y[0], env.game.ball_vy[0]) == (11, -1)
    assert not env.game.bricks.any()


def test_a_ball_between_two_bricks_takes_both():
    env = breakout()
    place(env, ball_x=11, ball_y=16, ball_vx=0, ball_vy=-1)
    assert act(env, NOOP).rewards.tolist() == [2.0] * 3


def test_every_reward_is_a_brick_that_vanished():
    env = breakout(n_envs=7)
    for _ in range(200):
        before = env.game.bricks.sum((1, 2))
        step = env.step(follow_the_ball(env))
        vanished = before - env.game.bricks.sum((1, 2))
        rebuilt = env.game.bricks.all(2).all(1)
        assert torch.equal(step.rewards[~rebuilt], vanished[~rebuilt].float())


def test_the_wall_is_rebuilt_when_the_ball_has_left_it():
    env = breakout()
    leave_only(env, row=1, column=4)
    place(env, ball_x=17, ball_y=14, ball_vx=0, ball_vy=-1)
    assert act(env, NOOP).rewards.tolist() == [1.0] * 3
    act(env, NOOP)
    assert (env.game.ball_y == 15).all()
    assert not env.game.bricks.any()
    act(env, NOOP)
    assert (env.game.ball_y == 16).all()
    assert env.game.bricks.all()


def test_ball_is_mirrored_at_the_sides_and_at_the_ceiling():
    env = breakout()
    place(env, bricks=False, ball_x=29.5, ball_y=9, ball_vx=1, ball_vy=-1)
    act(env, NOOP, times=2)
    assert (env.game.ball_x[0], env.game.ball_vx[0]) == (28.5, -1)
    assert (env.game.ball_y[0], env.game.ball_vy[0]) == (9, 1)


@pytest.mark.parametrize(("ball_x", "vx"), [(12.0, 0.125), (15.0, 1.125), (8.5, -1.375)])
def test_the_bar_sends_the_ball_up_the_flatter_the_farther_out_it_hits(ball_x, vx):
    env = breakout()
    place(env, bar_x=10, ball_x=ball_x, ball_y=25, ball_vx=0, ball_vy=1)
    act(env, NOOP)
    assert (env.game.ball_y[0], env.game.ball_vy[0]) == (26, -1)
    assert env.game.ball_vx[0] == vx


def test_the_last_ball_lost_ends_the_game_and_earlier_ones_do_not():
    env = breakout(lives=2)
    for lives_left in (1, 0):
        place(env, bar_x=0, ball_x=20, ball_y=29, ball_vx=0, ball_vy=1)
        step = act(env, NOOP)
        assert env.progress.lives.tolist() == [lives_left] * 3
        assert step.terminated.tolist() == step.episode_over.tolist() == [lives_left == 0] * 3
        act(env, NOOP)
        assert (env.game.ball_y <= 18).all(), "a new ball falls from below the wall"


def test_bricks_ball_and_bar_keep_to_their_own_rows_of_a_4_by_4_grid():
    masks = breakout().object_masks()
    rows = {name: mask.view(3, 4, 8, 32).any(3).any(2)[0].tolist() for name, mask in masks.items()}  # (H,)
    assert rows == {
        "bricks": [False, True, False, False],
        "ball": [False, False, True, False],
        "bar": [False, False, False, True],
    }


def test_good_play_clears_far_more_bricks_than_random_play(generator):
    env = breakout(n_envs=32, max_steps=250)
    players = (lambda env: torch.randint(3, (env.n_envs,), generator=generator), follow_the_ball)
    means = []
    for player in players:
        env.reset(seed=1)
        scores, alive = torch.zeros(32), torch.ones(32)
        for _ in range(250):
            step = env.step(player(env))
            scores += step.rewards * alive
            alive *= ~step.episode_over
        means.append(scores.mean().item())
    assert means[1] > 5 * means[0] > 0
