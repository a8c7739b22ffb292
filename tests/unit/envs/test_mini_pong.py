import pytest
import torch

from megareward.envs.mini import PongConfig
from megareward.envs.mini.games import make_mini
from megareward.envs.mini.pong import MiniPong

NOOP, UP, DOWN = 0, 1, 2


def pong(n_envs: int = 3, **options) -> MiniPong:
    return make_mini("mini-pong", n_envs, PongConfig(**options))


def place(env: MiniPong, **values: float) -> None:
    """Put the same ball and paddles into every environment."""
    state = env.state_dict()
    env.load_state_dict(state | {name: torch.full_like(state[name], value) for name, value in values.items()})


def act(env: MiniPong, action: int, times: int = 1):
    for _ in range(times):
        step = env.step(torch.full((env.n_envs,), action))
    return step


def follow_the_ball(env: MiniPong) -> torch.Tensor:
    """Hit with the edge that sends the ball away from the opponent."""
    game = env.game
    aim = torch.where(game.opponent_y < 16, 2.5, -2.5)
    error = game.ball_y - game.paddle_y - 2 - aim
    return torch.where(error >= 1, DOWN, torch.where(error <= -1, UP, NOOP))


def scores_of_first_games(env: MiniPong, player) -> torch.Tensor:
    scores, alive = torch.zeros(env.n_envs), torch.ones(env.n_envs)
    for _ in range(env.config.max_steps):
        step = env.step(player(env))
        scores += step.rewards * alive
        alive *= ~step.episode_over
    return scores


def test_paddle_moves_two_units_and_stops_at_the_borders():
    env = pong()
    assert act(env, UP) is not None
    assert env.game.paddle_y.tolist() == [14.0] * 3
    act(env, UP, times=9)
    assert env.game.paddle_y.tolist() == [8.0] * 3
    act(env, DOWN, times=20)
    assert env.game.paddle_y.tolist() == [24.0] * 3


@pytest.mark.parametrize(("y", "vy", "next_y", "next_vy"), [(8.5, -1.0, 8.5, 1.0), (27.75, 0.5, 27.75, -0.5)])
def test_ball_is_mirrored_at_ceiling_and_floor(y, vy, next_y, next_vy):
    env = pong()
    place(env, ball_x=15, ball_y=y, ball_vx=1, ball_vy=vy)
    act(env, NOOP)
    assert env.game.ball_x[0] == 16
    assert (env.game.ball_y[0], env.game.ball_vy[0]) == (next_y, next_vy)


@pytest.mark.parametrize(("ball_y", "vy"), [(18.0, 0.125), (21.0, 1.125), (14.5, -1.375), (16.0, -0.625)])
def test_ball_returns_from_the_paddle_the_steeper_the_farther_out_it_hits(ball_y, vy):
    env = pong()
    place(env, paddle_y=16, ball_x=25, ball_y=ball_y, ball_vx=1, ball_vy=0)
    step = act(env, NOOP)
    assert (env.game.ball_x[0], env.game.ball_vx[0]) == (26, -1)
    assert env.game.ball_vy[0] == vy
    assert step.rewards.tolist() == [0.0] * 3


def test_a_miss_costs_a_point_once_and_the_next_ball_comes_from_the_middle():
    env = pong()
    place(env, paddle_y=8, ball_x=25, ball_y=20, ball_vx=1, ball_vy=0)
    steps = [act(env, NOOP) for _ in range(6)]
    assert [step.rewards[0].item() for step in steps] == [0, 0, 0, 0, -1, 0]
    assert env.game.ball_x.tolist() == [15 + v for v in env.game.ball_vx.tolist()]
    assert env.progress.lives.tolist() == [4] * 3


def test_a_steep_ball_beats_the_opponent():
    env = pong()
    place(env, opponent_y=8, ball_x=14, ball_y=14, ball_vx=-1, ball_vy=1.375)
    rewards = sum(act(env, NOOP).rewards for _ in range(14))
    assert rewards.tolist() == [1.0] * 3
    assert env.game.points.tolist() == [1.0] * 3


def test_the_opponent_returns_a_slow_ball():
    env = pong()
    place(env, opponent_y=14, ball_x=14, ball_y=18, ball_vx=-1, ball_vy=0.125)
    act(env, NOOP, times=11)
    assert (env.game.ball_vx == 1).all()


@pytest.mark.parametrize(("points", "lives"), [(4, 5), (0, 1)])
def test_the_last_point_of_either_side_ends_the_game(points, lives):
    env = pong()
    direction, ball_y = (-1, 28) if points else (1, 20)
    place(env, points=points, lives=lives, paddle_y=8, opponent_y=8, ball_x=15, ball_y=ball_y, ball_vx=direction)
    place(env, ball_vy=0)
    for _ in range(15):
        step = act(env, NOOP)
    assert step.rewards.tolist() == [-direction] * 3
    assert step.terminated.all()
    assert step.episode_over.all()
    assert not step.truncated.any()


def test_against_the_wall_every_return_scores_and_the_first_miss_ends_the_game():
    env = pong(opponent=False)
    place(env, paddle_y=16, ball_x=5, ball_y=18, ball_vx=-1, ball_vy=0)
    step = act(env, NOOP)
    assert (env.game.ball_x[0], env.game.ball_vx[0]) == (4, 1)
    rewards = [act(env, NOOP).rewards[0].item() for _ in range(22)]
    assert rewards == [0] * 21 + [1]
    place(env, paddle_y=8, ball_x=29, ball_y=20, ball_vx=1, ball_vy=0)
    step = act(env, NOOP)
    assert step.rewards.tolist() == [0.0] * 3
    assert step.terminated.all()


def test_paddle_and_opponent_keep_to_their_own_columns_of_a_4_by_4_grid():
    env = pong()
    masks = env.object_masks()
    columns = {name: mask.view(3, 32, 4, 8).any(3).any(1) for name, mask in masks.items()}  # (N, W)
    assert columns["paddle"].tolist() == [[False, False, False, True]] * 3
    assert columns["opponent"].tolist() == [[True, False, False, False]] * 3


def test_good_play_wins_where_random_play_loses(generator):
    env = pong(n_envs=16, max_steps=600)
    random = scores_of_first_games(env, lambda env: torch.randint(3, (env.n_envs,), generator=generator))
    env.reset(seed=1)
    good = scores_of_first_games(env, follow_the_ball)
    assert random.mean() < -2
    assert good.mean() > 3
