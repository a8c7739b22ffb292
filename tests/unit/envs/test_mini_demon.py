import torch

from megareward.envs.mini import DemonConfig
from megareward.envs.mini.demon import MiniDemon
from megareward.envs.mini.games import make_mini
from megareward.envs.mini.motion import GONE

NOOP, LEFT, RIGHT, FIRE = 0, 1, 2, 3


def demon(n_envs: int = 3, **options) -> MiniDemon:
    return make_mini("mini-demon", n_envs, DemonConfig(**options))


def place(env: MiniDemon, **values: float) -> None:
    state = env.state_dict()
    env.load_state_dict(state | {name: torch.full_like(state[name], value) for name, value in values.items()})


def act(env: MiniDemon, action: int, times: int = 1):
    for _ in range(times):
        step = env.step(torch.full((env.n_envs,), action))
    return step


def aim_and_dodge(env: MiniDemon) -> torch.Tensor:
    """Shoot at where the enemy will be when the bullet arrives; step aside from a low bomb."""
    game = env.game
    ahead = game.enemy_x + game.enemy_vx * (25 - game.enemy_y) / 2
    error = ahead.clamp(0, 28) - game.gun_x
    hunt = torch.where(error.abs() <= 1.5, FIRE, torch.where(error > 0, RIGHT, LEFT))
    bomb = game.bomb_x - game.gun_x - 1
    flee = torch.where((bomb > 0) & (game.gun_x > 4) | (game.gun_x >= 27), LEFT, RIGHT)
    return torch.where((game.bomb_y > 17) & (bomb.abs() < 5), flee, hunt)


def test_gun_moves_two_units_and_stops_at_the_borders():
    env = demon()
    act(env, LEFT)
    assert env.game.gun_x.tolist() == [12.0] * 3
    act(env, LEFT, times=9)
    assert env.game.gun_x.tolist() == [0.0] * 3
    act(env, RIGHT, times=20)
    assert env.game.gun_x.tolist() == [28.0] * 3


def test_one_bullet_at_a_time_flies_straight_up_and_is_gone_at_the_ceiling():
    env = demon()
    place(env, gun_x=20, enemy_x=0, enemy_vx=0, bomb_y=GONE)
    heights = [act(env, FIRE if t < 4 else RIGHT) and env.game.bullet_y[0].item() for t in range(11)]
    assert heights == [25.0, 23.0, 21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, GONE, GONE]
    assert (env.game.bullet_x == 21).all()
    act(env, FIRE)
    assert (env.game.bullet_y == 25).all()


def test_a_hit_scores_once_and_the_enemy_burns_and_comes_back_elsewhere():
    env = demon(n_envs=9)
    place(env, enemy_x=20, enemy_y=10, enemy_vx=0, enemy_vy=0, bullet_x=21, bullet_y=17)
    rewards = [act(env, NOOP).rewards for _ in range(6)]
    scored_at = torch.stack(rewards).argmax(0)
    assert (torch.stack(rewards).sum(0) == 1).all()
    assert (scored_at <= 2).all(), "an enemy that turned may be met one step earlier or later"
    assert (env.game.bullet_y == GONE).all()
    act(env, NOOP, times=2)
    assert (env.game.burning == 0).all()
    assert len(env.game.enemy_x.unique()) > 3


def test_a_burning_enemy_stands_still_and_drops_nothing():
    env = demon(n_envs=9)
    place(env, burning=4, enemy_x=20, enemy_y=10, enemy_vx=1, enemy_vy=0.5, bomb_y=GONE, bullet_y=12, bullet_x=20)
    for _ in range(3):
        assert (act(env, NOOP).rewards == 0).all()
        assert (env.game.enemy_x == 20).all()
        assert (env.game.bomb_y == GONE).all()
    masks = env.object_masks()
    assert masks["explosion"].any(2).any(1).all()
    assert not masks["enemy"].any()


def test_a_bomb_falls_one_unit_a_step_and_costs_a_life_where_it_meets_the_gun():
    env = demon(lives=2)
    place(env, gun_x=10, bomb_x=13, bomb_y=23)
    steps = [act(env, NOOP) for _ in range(3)]
    assert env.game.bomb_y[0] == 26
    assert env.progress.lives.tolist() == [1] * 3
    assert not steps[-1].terminated.any()
    act(env, NOOP)
    assert (env.game.bomb_y != 27).all(), "the bomb that hit is gone"
    place(env, gun_x=10, bomb_x=13, bomb_y=25)
    step = act(env, NOOP)
    assert step.terminated.all()
    assert step.episode_over.all()


def test_a_bomb_beside_the_gun_does_nothing():
    env = demon(lives=1)
    place(env, gun_x=10, bomb_x=14, bomb_y=24, enemy_x=28)
    for _ in range(5):
        assert not act(env, NOOP).terminated.any()


def test_firing_changes_the_bullet_at_once_and_the_enemy_only_when_they_meet():
    env = demon(n_envs=1)
    place(env, gun_x=14, enemy_x=14, enemy_y=10, enemy_vx=0, enemy_vy=0, bomb_y=GONE)
    branches = env.select(torch.tensor([0, 0]))
    step = branches.step(torch.tensor([FIRE, NOOP]))
    masks = branches.object_masks()
    assert masks["bullet"].any(2).any(1).tolist() == [True, False]
    hits = 0.0
    for _ in range(12):
        enemy = branches.object_masks()["enemy"]
        assert torch.equal(enemy[0], enemy[1]) == (hits == 0)
        step = branches.step(torch.tensor([NOOP, NOOP]))
        hits += step.rewards[0].item()
    assert hits == 1
    assert step.rewards[1] == 0


def test_the_enemy_keeps_to_the_second_row_of_a_4_by_4_grid_and_the_gun_to_the_last():
    env = demon(n_envs=7)
    for _ in range(60):
        env.step(aim_and_dodge(env))
        masks = env.object_masks()
        rows = {name: masks[name].view(7, 4, 8, 32).any(3).any(2) for name in ("enemy", "gun")}  # (N, H)
        assert not rows["enemy"][:, [0, 2, 3]].any()
        assert rows["gun"].tolist() == [[False, False, False, True]] * 7


def test_good_play_shoots_far_more_enemies_than_random_play(generator):
    env = demon(n_envs=16, max_steps=700)
    players = (lambda env: torch.randint(4, (env.n_envs,), generator=generator), aim_and_dodge)
    means = []
    for player in players:
        env.reset(seed=1)
        scores, alive = torch.zeros(16), torch.ones(16)
        for _ in range(env.config.max_steps):
            step = env.step(player(env))
            scores += step.rewards * alive
            alive *= ~step.episode_over
        means.append(scores.mean().item())
    assert means[1] > 5 * means[0] > 0
