"""Our Atari batch on the real emulator, and the facts about the emulator it is built on."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from ale_py import ALEInterface, LoggerMode, roms
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import AutoresetMode

from megareward.envs import score_masks
from megareward.envs.atari import Atari
from megareward.envs.atari_config import AtariConfig
from megareward.envs.interface import Step
from megareward.errors import RunError, UsageError
from megareward.experiments.plans import PAPER_GAMES

NO_START = {"noop_max": 0, "fire_reset": False}


@contextmanager
def atari(rom: str, n_envs: int, hide_score: bool = False, **config) -> Iterator[Atari]:
    env = Atari(rom, n_envs, AtariConfig(**{"threads": 2} | config), hide_score=hide_score)
    yield env
    env.close()


def random_actions(env: Atari, steps: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(env.n_actions, (steps, env.n_envs), generator=torch.Generator().manual_seed(seed))


def play(env: Atari, seed: int, steps: int, action_seed: int = 0) -> list[Step]:
    """The step of `reset` and those after it, under random actions."""
    stream = [env.reset(seed)]
    for actions in random_actions(env, steps, action_seed):
        env.send(actions)
        stream.append(env.recv())
    return stream


def stacked(stream: list[Step], field: str) -> np.ndarray:
    return torch.stack([getattr(step, field) for step in stream]).numpy()  # (T + 1, N, ...)


# --- what a step is


def test_shapes_types_and_names():
    with atari("breakout", 3, px=42) as env:
        step = env.reset(0)
        assert env.action_names == ("NOOP", "FIRE", "RIGHT", "LEFT")
        assert (env.n_envs, env.n_actions, env.frame_shape, env.frame_skip) == (3, 4, (42, 42), 4)
        assert env.device == torch.device("cpu")
        assert (step.frames.shape, step.frames.dtype) == ((3, 42, 42), torch.uint8)
        assert (step.rewards.shape, step.rewards.dtype) == ((3,), torch.float32)
        for flags in (step.terminated, step.truncated, step.first, step.episode_over):
            assert (flags.shape, flags.dtype) == ((3,), torch.bool)


def test_all_18_actions_on_request():
    with atari("pong", 1, full_actions=True) as env:
        assert env.n_actions == 18


@pytest.mark.parametrize("rom", ["air_raid", "carnival", "pooyan", "journey_escape"])
def test_screens_that_do_not_have_210_rows_work_and_are_painted_in_their_own_scale(rom):
    with atari(rom, 2, hide_score=True) as env:
        stream = play(env, seed=0, steps=5)
    assert score_masks.game_screen(rom).shape[0] != 210
    for x0, y0, x1, y1 in score_masks.frame_boxes(rom):
        assert not stacked(stream, "frames")[..., y0:y1, x0:x1].any()


def test_rewards_are_the_raw_score():
    with atari("carnival", 1) as env:
        rewards = stacked(play(env, seed=0, steps=150), "rewards")
    assert rewards.max() > 1


# --- the frame


@functools.cache
def area_shrink(length: int, px: int) -> np.ndarray:
    """Matrix (px, length) that averages areas."""
    edges, cells = np.arange(length + 1), np.linspace(0, length, px + 1)[:, None]
    return (np.minimum(edges[1:], cells[1:]) - np.maximum(edges[:-1], cells[:-1])).clip(0) * px / length


class TrueGame:
    """One game on the plain emulator, without no-op start: what the vector emulator ought to show."""

    def __init__(self, rom: str) -> None:
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.ale = ALEInterface()
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.loadROM(roms.get_rom_path(rom))
        self.ale.reset_game()
        self.screens = [self.ale.getScreenGrayscale()] * 2

    def act(self, action: int) -> None:
        """One decision: four emulator frames, fewer if the game ends."""
        for _ in range(4):
            self.ale.act(self.ale.getMinimalActionSet()[action])
            self.screens = [self.screens[1], self.ale.getScreenGrayscale()]
            if self.ale.game_over():
                break

    def frame(self) -> np.ndarray:
        """(84, 84) area average of the brighter of the last two screens."""
        screen = np.maximum(*self.screens)
        return area_shrink(screen.shape[0], 84) @ screen @ area_shrink(screen.shape[1], 84).T


@pytest.mark.parametrize("rom", ["kaboom", "air_raid"])
def test_a_frame_is_the_area_average_of_the_brighter_of_the_last_two_screens(rom):
    with atari(rom, 1, **NO_START) as env:
        seen = stacked(play(env, seed=0, steps=60), "frames")[:, 0]
        actions = random_actions(env, 60)[:, 0]
    game = TrueGame(rom)
    assert np.abs(seen[0] - game.frame()).max() <= 0.5 + 1e-6
    for frame, action in zip(seen[1:], actions, strict=True):
        game.act(action)
        assert np.abs(frame - game.frame()).max() <= 0.5 + 1e-6


def test_the_emulator_ends_a_game_with_a_repeated_frame():
    # ale-py 0.12 leaves its loop of four frames before it copies the screen in which the game ended, so the last
    # frame of an episode shows the world of one decision earlier. If this test fails, ale-py got better: rejoice.
    with atari("kaboom", 1, **NO_START) as env:
        stream = play(env, seed=0, steps=300)
        actions = random_actions(env, 300)[:, 0]
    end = int(stacked(stream, "episode_over")[:, 0].argmax())
    game = TrueGame("kaboom")
    for action in actions[:end]:
        assert not game.ale.game_over()
        before = np.maximum(*game.screens)
        game.act(action)
    assert game.ale.game_over()
    frames = stacked(stream, "frames")[:, 0]
    assert (frames[end] == frames[end - 1]).all()
    assert (np.maximum(*game.screens) != before).any()


def test_frames_already_handed_out_never_change():
    with atari("breakout", 2) as env:
        stream = [env.reset(0)]
        copies = [stream[0].frames.clone()]
        for actions in random_actions(env, 20):
            env.send(actions)
            stream.append(env.recv())
            copies.append(stream[-1].frames.clone())
    for step, copy in zip(stream, copies, strict=True):
        assert torch.equal(step.frames, copy)


def test_changing_a_step_in_place_does_not_change_the_next():
    with atari("pong", 1, max_frames=8) as env:
        env.reset(0)
        for _ in range(2):
            env.send(torch.tensor([0]))
            step = env.recv()
        step.episode_over.zero_()
        env.send(torch.tensor([0]))
        assert env.recv().first.all()


def test_a_hidden_score_is_black_and_everything_else_is_untouched():
    with atari("breakout", 2, hide_score=True, hide_lives=True) as env:
        hidden = stacked(play(env, seed=3, steps=30), "frames")
    with atari("breakout", 2) as env:
        shown = stacked(play(env, seed=3, steps=30), "frames")
    painted = np.zeros((84, 84), bool)
    for x0, y0, x1, y1 in score_masks.frame_boxes("breakout", lives=True):
        painted[y0:y1, x0:x1] = True
    assert shown[..., painted].any()
    assert not hidden[..., painted].any()
    assert (hidden[..., ~painted] == shown[..., ~painted]).all()


def test_the_score_may_be_shown_while_the_lives_are_hidden():
    with atari("breakout", 1, hide_lives=True) as env:
        frame = env.reset(0).frames[0]
    (score,) = score_masks.frame_boxes("breakout")
    (lives,) = score_masks.frame_boxes("breakout", score=False, lives=True)
    assert frame[score.y0 : score.y1, score.x0 : score.x1].any()
    assert not frame[lives.y0 : lives.y1, lives.x0 : lives.x1].any()


def test_a_game_of_unknown_score_box_is_refused_only_if_the_score_must_be_hidden():
    with pytest.raises(UsageError, match="tetris"):
        Atari("tetris", 1, AtariConfig(), hide_score=True)
    with atari("tetris", 1, hide_score=True, allow_visible_score=True) as env:
        assert env.reset(0).frames.any()
    with atari("tetris", 1, hide_score=False) as env:
        assert env.reset(0).frames.any()


# --- episode ends


@pytest.mark.parametrize(("max_frames", "steps"), [(40, 10), (42, 11), (100, 25)])
def test_an_episode_is_truncated_after_max_frames_emulator_frames(max_frames, steps):
    with atari("pong", 2, max_frames=max_frames) as env:
        stream = play(env, seed=0, steps=3 * steps)
    over = stacked(stream, "episode_over")
    assert over[: 2 * steps + 2].nonzero()[0].tolist() == [steps, steps, 2 * steps + 1, 2 * steps + 1]
    assert (stacked(stream, "truncated") == over).all()
    assert not stacked(stream, "terminated").any()


def test_the_frame_after_an_end_opens_the_next_episode_with_reward_0():
    with atari("kaboom", 2) as env:
        stream = play(env, seed=0, steps=420)
    first, over = stacked(stream, "first"), stacked(stream, "episode_over")
    assert over.sum() >= 2
    assert first[0].all()
    assert (first[1:] == over[:-1]).all()
    assert not (first & over).any()
    assert not stacked(stream, "rewards")[first].any()
    assert (stacked(stream, "terminated") == over).all()  # Kaboom has one life as the emulator counts


def test_the_action_sent_after_an_end_is_ignored():
    frames = []
    for action in (0, 1):
        with atari("pong", 1, max_frames=20) as env:
            env.reset(0)
            for step in range(8):  # the fifth step is the last of its episode, the sixth brings the reset
                env.send(torch.tensor([action if step == 5 else 2]))
                frames.append(env.recv().frames)
    assert torch.equal(torch.stack(frames[:8]), torch.stack(frames[8:]))


def test_a_lost_life_is_terminal_but_the_game_goes_on():
    with atari("breakout", 2) as env:
        stream = play(env, seed=0, steps=260)
    terminated, over = stacked(stream, "terminated"), stacked(stream, "episode_over")
    for n in range(2):
        end = int(over[:, n].argmax())
        assert end > 0
        assert terminated[: end + 1, n].sum() == 5  # five balls, the last one together with the game


@pytest.mark.parametrize("serves", [True, False])
def test_after_a_lost_life_the_ball_is_served_for_the_agent_and_a_new_stretch_of_play_begins(serves):
    with atari("breakout", 2, fire_after_life=serves) as env:
        stream = [env.reset(0)]
        for _ in range(300):
            env.send(torch.zeros(2, dtype=torch.int64))  # an agent that never presses anything
            stream.append(env.recv())
    terminated, over, first = (stacked(stream, name) for name in ("terminated", "episode_over", "first"))
    only_a_life = terminated & ~over
    assert (first[1:] == (only_a_life | over)[:-1]).all()
    assert over.any(0).all() == serves  # else it waits for ever with four balls left
    assert terminated.any(0).all()


def test_a_lost_life_can_be_passed_over():
    with atari("breakout", 2, life_loss_is_terminal=False) as env:
        stream = play(env, seed=0, steps=260)
    assert (stacked(stream, "terminated") == stacked(stream, "episode_over")).all()
    assert (stacked(stream, "first")[1:] == stacked(stream, "episode_over")[:-1]).all()


NO_SERVE = ("asterix", "kung_fu_master", "ms_pacman")


@pytest.mark.slow
@pytest.mark.parametrize("game", [*NO_SERVE, *PAPER_GAMES])
def test_every_end_is_followed_by_a_first_frame_also_in_games_that_need_no_serve(game):
    """Or what was under control would outlive the life that it belongs to."""
    with atari(game, 2) as env:
        stream = play(env, seed=0, steps=700)
    terminated, over, first = (stacked(stream, name) for name in ("terminated", "episode_over", "first"))
    assert (terminated & ~over).any() or game not in NO_SERVE
    assert (first[1:] == (terminated | over)[:-1]).all()


def test_a_new_game_that_starts_with_fewer_lives_has_not_lost_one():
    # The emulator counts 1 life in the first moments of Demon Attack and 4 from then on.
    with atari("demon_attack", 1, max_frames=200, **NO_START) as env:
        stream = play(env, seed=0, steps=110)
    first = stacked(stream, "first")
    assert first.sum() == 3
    assert not stacked(stream, "terminated")[first].any()


def test_life_losses_fall_on_the_decisions_in_which_the_emulator_counts_one_life_less():
    with atari("breakout", 1, **NO_START) as env:
        terminated = stacked(play(env, seed=0, steps=300), "terminated")[:, 0]
        actions = random_actions(env, 300)[:, 0]
    game, lost = TrueGame("breakout"), []
    for t, action in enumerate(actions, start=1):
        lives = game.ale.lives()
        game.act(action)
        if game.ale.lives() < lives:
            lost.append(t)
        if game.ale.game_over():
            break
    assert len(lost) == 5
    assert terminated[: t + 1].nonzero()[0].tolist() == lost


def test_the_emulators_own_episodic_life_would_start_a_new_game():
    env = AtariVectorEnv("breakout", 1, stack_num=1, episodic_life=True)
    env.reset(seed=0)
    ended = False
    while not ended:
        _, _, (ended,), _, info = env.step(np.array([1]))
    assert info["lives"] == [4]
    *_, info = env.step(np.array([1]))
    assert info["lives"] == [5]


# --- autoreset modes


def transitions(mode: AutoresetMode, actions: np.ndarray, steps: int) -> tuple[list[list], int]:
    """Per environment its real transitions (frame, reward, next frame, ended); and how often final_obs was given.

    Every environment takes its own actions in order, one per real transition, so that an ignored action shifts nothing.
    """
    n_envs = len(actions)
    env = AtariVectorEnv(
        "kaboom", n_envs, stack_num=1, reward_clipping=False, autoreset_mode=mode, max_num_frames_per_episode=160
    )
    frames, _ = env.reset(seed=7)
    seen: list[list] = [[] for _ in range(n_envs)]
    over, final_obs = np.zeros(n_envs, bool), 0
    for _ in range(steps):
        after, rewards, terminated, truncated, info = env.step(
            np.array([actions[n, len(seen[n])] for n in range(n_envs)])
        )
        ended = terminated | truncated
        final_obs += "final_obs" in info
        for n in range(n_envs):
            if mode is AutoresetMode.NEXT_STEP and over[n]:
                continue  # the transition across the reset
            hidden_end = mode is AutoresetMode.SAME_STEP and ended[n]
            last = info["final_obs"][n] if hidden_end else after[n]
            seen[n].append((frames[n].tobytes(), int(rewards[n]), last.tobytes(), bool(ended[n])))
        frames, over = after, ended
    return seen, final_obs


def test_both_autoreset_modes_hold_the_same_transitions_once_resets_are_dropped():
    # Why NEXT_STEP: there the last frame of an episode is in the stream like any other. In SAME_STEP it lies in
    # info["final_obs"], present only in steps where some environment ended, and info["lives"] is the next game's.
    actions = np.random.default_rng(0).integers(0, 4, (2, 100))
    next_step, final_obs = transitions(AutoresetMode.NEXT_STEP, actions, 90)
    assert final_obs == 0
    same_step, final_obs = transitions(AutoresetMode.SAME_STEP, actions, 90)
    assert final_obs >= 2
    for next_n, same_n in zip(next_step, same_step, strict=True):
        assert sum(ended for *_, ended in next_n) >= 2
        assert len(next_n) < len(same_n) == 90
        assert next_n == same_n[: len(next_n)]


def test_same_step_mode_reports_the_lives_of_the_next_game_with_the_end_of_this_one():
    lives = {}
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        env = AtariVectorEnv("breakout", 1, stack_num=1, autoreset_mode=mode)
        env.reset(seed=0)
        ended = False
        while not ended:
            _, _, (ended,), _, info = env.step(np.array([1]))
        lives[mode] = info["lives"].tolist()
    assert lives == {AutoresetMode.NEXT_STEP: [0], AutoresetMode.SAME_STEP: [5]}


# --- seeds, order, randomness


def test_the_same_seed_gives_the_same_episodes_and_another_seed_others():
    streams = []
    for seed in (11, 11, 12):
        with atari("kaboom", 2, sticky=0.25, max_frames=120) as env:
            streams.append(play(env, seed=seed, steps=80))
    same, again, other = (stacked(stream, "frames") for stream in streams)
    assert stacked(streams[0], "episode_over").any()
    assert (same == again).all()
    assert (same != other).any()


def test_a_second_reset_with_the_same_seed_starts_over_even_while_a_step_is_under_way():
    with atari("breakout", 2) as env:
        stream = play(env, seed=5, steps=30)
        env.send(torch.tensor([1, 2]))
        again = play(env, seed=5, steps=30)
    for field in ("frames", "rewards", "terminated", "first"):
        assert (stacked(stream, field) == stacked(again, field)).all()


def test_no_op_starts_differ_between_environments_and_between_seeds():
    with atari("freeway", 4) as env:
        starts = [env.reset(seed).frames.flatten(1) for seed in (0, 1)]
    for frames in starts:
        assert len(frames.unique(dim=0)) >= 3
    # Nor do neighbouring seeds share environments, as they would if environment n had the seed s + n.
    assert not torch.equal(starts[0][1:], starts[1][:-1])


def test_without_no_ops_and_sticky_actions_all_environments_are_alike():
    with atari("breakout", 2, **NO_START) as env:
        env.reset(0)
        for action in random_actions(env, 60)[:, 0]:
            env.send(action.expand(2))
            step = env.recv()
            assert (step.frames == step.frames[0]).all()


def test_sticky_actions_part_environments_that_do_the_same():
    with atari("breakout", 2, sticky=0.25, **NO_START) as env:
        env.reset(0)
        alike = []
        for action in random_actions(env, 60)[:, 0]:
            env.send(action.expand(2))
            alike.append(torch.equal(*env.recv().frames))
    assert not all(alike)


def test_rows_are_in_the_order_of_the_environments():
    # Environment n holds the stick to the left for n decisions: the place of its paddle tells who answers.
    n_envs = 4
    with atari("breakout", n_envs, threads=0, **NO_START) as env:
        env.reset(0)
        for t in range(n_envs):
            env.send(torch.tensor([env.action_names.index("LEFT" if t < n else "NOOP") for n in range(n_envs)]))
            frames = env.recv().frames
    paddle = [int(frame[76:78, 5:79].amax(0).nonzero().min()) for frame in frames]
    assert paddle == sorted(set(paddle), reverse=True)


# --- bad input


def test_an_impossible_action_is_refused_instead_of_waiting_for_ever():
    with atari("breakout", 2) as env:
        env.reset(0)
        with pytest.raises(ValueError, match="between 0 and 3"):
            env.send(torch.tensor([0, 4]))


def test_send_and_recv_must_alternate():
    with atari("breakout", 1) as env:
        env.reset(0)
        with pytest.raises(RuntimeError, match="nothing to receive"):
            env.recv()
        env.send(torch.tensor([0]))
        with pytest.raises(RuntimeError, match="two sends"):
            env.send(torch.tensor([0]))


def test_states_cannot_be_saved_and_the_attempt_to_restore_one_says_so():
    with atari("pong", 1) as env:
        assert env.state_dict() is None
        with pytest.raises(RunError, match="cannot be restored"):
            env.load_state_dict({})


def test_closing_twice_is_fine():
    with atari("pong", 1) as env:
        env.close()


def test_no_environments_are_refused():
    with pytest.raises(UsageError, match="0 environments"):
        Atari("pong", 0, AtariConfig(), hide_score=False)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sticky", 1.0),
        ("sticky", -0.1),
        ("noop_max", -1),
        ("frame_skip", 0),
        ("max_frames", 3),
        ("threads", -2),
        ("px", 0),
        ("px", 161),
    ],
)
def test_an_impossible_setting_is_refused_by_name_and_value(field, value):
    with pytest.raises(UsageError, match=f"--env.{field.replace('_', '-')} is {value}; it must be"):
        AtariConfig(**{field: value})
