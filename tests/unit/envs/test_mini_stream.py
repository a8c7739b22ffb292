"""What every mini game owes the rest of the project: the stream of `Step`s, cloning, branches, extras."""

from dataclasses import asdict, replace

import pytest
import torch

from megareward.envs.interface import Step
from megareward.envs.mini import MINI_GAMES, mini_config
from megareward.envs.mini.base import FLASH_STEPS, MiniGame
from megareward.envs.mini.drawing import WALL_LEVEL
from megareward.envs.mini.games import make_mini

EXTRAS = {"distractor": True, "noisy_tv": True, "death_flash": True, "moving_camera": True}
SHORT_GAMES = {"mini-pong": {"points": 1}, "mini-breakout": {"lives": 2}}
SHORT_GAMES |= {name: {"lives": 1} for name in ("mini-demon", "mini-road", "mini-crate")}
every_game = pytest.mark.parametrize("name", MINI_GAMES)


def short_game(name: str, n_envs: int = 5, device: str = "cpu", **options) -> MiniGame:
    return make_mini(name, n_envs, mini_config(name, **SHORT_GAMES[name] | options), device)


def random_actions(env: MiniGame, steps: int, n_envs: int | None = None) -> torch.Tensor:
    generator = torch.Generator().manual_seed(11)
    return torch.randint(env.n_actions, (steps, n_envs or env.n_envs), generator=generator)


def play(env: MiniGame, actions: torch.Tensor) -> Step:
    """All steps in one, with a leading time axis."""
    steps = [vars(env.step(a)) for a in actions]
    return Step(**{name: torch.stack([step[name] for step in steps]) for name in steps[0]})


def assert_same(one: Step, other: Step, *names: str) -> None:
    for name in names or vars(one):
        assert torch.equal(getattr(one, name), getattr(other, name)), name


@every_game
@pytest.mark.parametrize("extras", [{}, EXTRAS], ids=["plain", "extras"])
def test_every_episode_ends_once_and_is_followed_by_one_first_frame(name, extras):
    env = short_game(name, max_steps=60, **extras)
    reset = env.reset(seed=4)
    assert reset.first.all()
    assert not (reset.terminated | reset.truncated | reset.episode_over | (reset.rewards != 0)).any()
    run = play(env, random_actions(env, 190))

    assert torch.equal(run.episode_over, run.terminated | run.truncated)
    assert torch.equal(run.first[1:], run.episode_over[:-1])
    assert not (run.terminated & run.truncated).any()
    assert (run.rewards[run.first] == 0).all()
    steps = torch.zeros(env.n_envs, dtype=torch.int64)
    for t in range(190):
        steps = torch.where(run.first[t], 0, steps + 1)
        assert torch.equal(run.truncated[t], (steps == 60) & ~run.terminated[t])
    assert run.terminated.any()
    assert run.truncated.any()
    assert run.rewards.any()


@every_game
def test_frames_are_grey_bytes_of_the_size_asked_for(name):
    for size in (32, 40, 84):
        env = make_mini(name, 2, mini_config(name, size=size))
        frames = env.reset(0).frames
        assert frames.dtype == torch.uint8
        assert frames.shape == (2, *env.frame_shape) == (2, size, size)
        assert frames.device == env.device
        assert frames.float().mean() < 80, "the background is dark"


@every_game
def test_a_lost_life_is_terminal_only_if_asked_and_changes_nothing_else(name):
    options = {"points": 3} if name == "mini-pong" else {"lives": 3}
    plain = make_mini(name, 5, mini_config(name, **options))
    asked = make_mini(name, 5, replace(plain.config, life_loss_is_terminal=True))
    actions = random_actions(plain, 220)
    one, other = play(plain, actions), play(asked, actions)
    assert_same(one, other, "frames", "rewards", "truncated", "episode_over")
    lives_lost = other.terminated & ~other.episode_over
    assert lives_lost.any()
    assert torch.equal(one.terminated, other.terminated & other.episode_over)
    assert torch.equal(other.first[1:], one.first[1:] | lives_lost[:-1]), "the game goes on, in another segment"


def test_the_screen_flashes_between_a_death_and_the_loss_of_the_life():
    env = make_mini("mini-breakout", 3, mini_config("mini-breakout", death_flash=True, life_loss_is_terminal=True))
    state = env.state_dict()
    state["ball_y"].fill_(29.0)
    state["bar_x"].fill_(0.0)
    state["ball_x"].fill_(20.0)
    env.load_state_dict(state)
    run = play(env, torch.full((FLASH_STEPS + 2, 3), 2))
    dead = run.frames[0]
    for t in range(1, FLASH_STEPS + 1):
        assert torch.equal(run.frames[t], 255 - dead if t % 2 else dead), "frozen, every other frame inverted"
    assert run.terminated[:, 0].nonzero().flatten().tolist() == [FLASH_STEPS]
    assert env.progress.lives.tolist() == [2] * 3
    assert not torch.equal(run.frames[-1], dead)


def test_what_the_old_episode_would_have_scored_is_not_the_new_ones():
    env = make_mini("mini-breakout", 3)
    state = env.state_dict()
    for name, value in {"ball_x": 9, "ball_y": 17, "ball_vx": 0, "ball_vy": -1, "steps": 999}.items():
        state[name].fill_(value)
    env.load_state_dict(state)
    run = play(env, torch.zeros(2, 3, dtype=torch.int64))
    assert run.truncated.tolist() == [[True] * 3, [False] * 3]
    assert run.first.tolist() == [[False] * 3, [True] * 3]
    assert (run.rewards == 0).all(), "the brick above the ball belongs to the past"


def test_a_death_that_was_cut_by_the_time_limit_does_not_haunt_the_next_episode():
    env = make_mini("mini-breakout", 3, mini_config("mini-breakout", death_flash=True))
    state = env.state_dict()
    state["dying"].fill_(5)
    state["steps"].fill_(999)
    env.load_state_dict(state)
    run = play(env, torch.zeros(9, 3, dtype=torch.int64))
    assert run.truncated.sum(0).tolist() == [1] * 3
    assert env.progress.lives.tolist() == [3] * 3
    assert (env.game.ball_y == 17 + 7).all(), "the new ball falls from the first frame on"


@every_game
def test_a_restored_state_continues_bit_for_bit_in_another_object(name):
    env = short_game(name, **EXTRAS)
    actions = random_actions(env, 140)
    play(env, actions[:70])
    state, picture = env.state_dict(), env.frames()
    expected = play(env, actions[70:])

    other = make_mini(name, env.n_envs, env.config)
    other.load_state_dict(state)
    assert torch.equal(other.frames(), picture)
    assert_same(play(other, actions[70:]), expected)
    env.load_state_dict(state)
    assert_same(play(env, actions[70:]), expected)


@every_game
def test_a_saved_state_does_not_change_while_the_game_goes_on(name):
    env = short_game(name, **EXTRAS)
    state = env.state_dict()
    before = {key: value.clone() for key, value in state.items()}
    play(env, random_actions(env, 20))
    assert all(torch.equal(state[key], before[key]) for key in state)
    assert all(len(value) == env.n_envs for value in state.values())


@every_game
def test_an_environment_does_not_depend_on_its_neighbours(name):
    many, few = short_game(name, n_envs=7, **EXTRAS), short_game(name, n_envs=2, **EXTRAS)
    actions = random_actions(many, 60)
    many.reset(9)
    few.reset(9)
    one, other = play(many, actions), play(few, actions[:, :2])
    assert_same(Step(**{key: value[:, :2] for key, value in vars(one).items()}), other)


@every_game
def test_branches_see_the_same_random_world(name):
    env = short_game(name, **EXTRAS)
    play(env, random_actions(env, 8))  # nobody is dead yet, so every action counts
    before = env.state_dict()
    branches = env.select(torch.tensor([3, 3, 3, 0]))
    actions = random_actions(env, 40, n_envs=1).repeat(1, 4)  # (T, M)
    actions[0, 1] = (actions[0, 1] + 1) % env.n_actions
    run = play(branches, actions)
    assert torch.equal(run.frames[:, 0], run.frames[:, 2])
    assert torch.equal(run.rewards[:, 0], run.rewards[:, 2])
    assert not torch.equal(run.frames[:, 0], run.frames[:, 1]), "another action makes a difference"
    assert torch.equal(run.frames[0, 0, :6, :8], run.frames[0, 1, :6, :8]), "but not to the noise"
    assert not torch.equal(run.frames[0, 0, :6, :8], run.frames[0, 3, :6, :8])
    assert all(torch.equal(before[key], value) for key, value in env.state_dict().items())


@every_game
def test_a_branch_goes_on_as_its_origin_would(name):
    env = short_game(name)
    play(env, random_actions(env, 40))
    branch = env.select(torch.tensor([4, 1]))
    actions = random_actions(env, 40)
    one, other = play(env, actions), play(branch, actions[:, [4, 1]])
    assert_same(Step(**{key: value[:, [4, 1]] for key, value in vars(one).items()}), other)


@every_game
def test_the_game_is_the_same_at_every_size(name):
    small, odd, large = (short_game(name, size=size) for size in (32, 41, 84))
    actions = random_actions(small, 100)
    expected = play(small, actions)
    assert expected.rewards.any()
    for env in (odd, large):
        assert_same(play(env, actions), expected, "rewards", "terminated", "truncated", "first")


@every_game
def test_the_seed_decides_the_game(name):
    env = short_game(name)
    actions = random_actions(env, 30)
    runs = []
    for seed in (5, 5, 6):
        env.reset(seed)
        runs.append(play(env, actions))
    assert_same(runs[0], runs[1])
    assert not torch.equal(runs[0].frames, runs[2].frames)


@every_game
def test_the_environments_of_a_batch_play_different_games(name):
    env = short_game(name, n_envs=16)
    frames = play(env, torch.zeros(5, 16, dtype=torch.int64)).frames[-1]
    assert len(frames.flatten(1).unique(dim=0)) > 8


@every_game
def test_distractor_and_noisy_tv_are_drawn_above_the_game_and_leave_it_alone(name):
    plain, busy = short_game(name), short_game(name, distractor=True, noisy_tv=True)
    actions = random_actions(plain, 60)
    one, other = play(plain, actions), play(busy, actions)
    assert_same(one, other, "rewards", "terminated", "truncated", "first")
    assert torch.equal(one.frames[:, :, 6:], other.frames[:, :, 6:])
    assert (one.frames[:, :, :6] == 0).all()
    tv, strip = other.frames[:, :, :6, :8], other.frames[:, :, :6, 8:]
    assert (tv[1:] != tv[:-1]).float().mean() > 0.95, "new noise at every step"
    assert 120 < tv.float().mean() < 135
    assert ((strip > 0).sum((2, 3)) == 9).all(), "the distractor is three pixels wide and high"
    assert (strip[1:] != strip[:-1]).flatten(2).any(2).all(), "and always moves"


@every_game
def test_a_moving_camera_changes_the_picture_only(name):
    still, moving = short_game(name), short_game(name, moving_camera=True)
    actions = random_actions(still, 60)
    one, other = play(still, actions), play(moving, actions)
    assert_same(one, other, "rewards", "terminated", "truncated", "first")
    assert not torch.equal(one.frames, other.frames)


def test_the_camera_shifts_the_whole_picture_by_half_of_the_players_way():
    still = make_mini("mini-pong", 3)
    moving = make_mini("mini-pong", 3, mini_config("mini-pong", moving_camera=True))
    up = torch.ones(9, 3, dtype=torch.int64)  # 8 units up: the picture goes down by 4 pixels
    one, other = play(still, up).frames[-1], play(moving, up).frames[-1]
    assert torch.equal(other[:, 4:], one[:, :-4])
    assert torch.equal(moving.object_masks()["ball"][:, 4:], still.object_masks()["ball"][:, :-4])


@every_game
@pytest.mark.parametrize(("size", "camera"), [(32, False), (84, False), (40, True)])
def test_object_masks_name_every_bright_pixel(name, size, camera):
    env = short_game(name, size=size, moving_camera=camera, distractor=True, noisy_tv=True)
    for actions in random_actions(env, 30):
        frames, masks = env.step(actions).frames, env.object_masks()
        named = torch.stack(list(masks.values())).any(0)  # (N, px_h, px_w)
        assert {"distractor", "noisy_tv"} < set(masks)
        assert torch.equal((frames > WALL_LEVEL) | masks["noisy_tv"], named)


@every_game
@pytest.mark.parametrize("extras", [{}, EXTRAS], ids=["plain", "extras"])
def test_no_step_asks_the_device_for_a_value_or_leaves_it(name, extras):
    env = short_game(name, device="meta", **extras)  # where tensors have shapes but no values to ask for
    run = play(env, torch.zeros(2, env.n_envs, dtype=torch.int64, device="meta"))
    assert {value.device for value in (*vars(run).values(), *env.state_dict().values())} == {env.device}


@pytest.mark.gpu
@every_game
def test_the_gpu_plays_the_same_game_without_waiting_for_it(name):
    cpu, gpu = short_game(name, **EXTRAS), short_game(name, device="cuda", **EXTRAS)
    actions = random_actions(cpu, 200)
    on_gpu = actions.cuda()
    torch.cuda.set_sync_debug_mode("error")
    try:
        run = play(gpu, on_gpu)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert_same(play(cpu, actions), Step(**{key: value.cpu() for key, value in vars(run).items()}))
    assert asdict(cpu.config) == asdict(gpu.config)
