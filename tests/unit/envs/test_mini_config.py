import subprocess
import sys
from dataclasses import asdict, fields

import pytest
import torch

from megareward.envs.mini import MINI_GAMES, BreakoutConfig, PongConfig, mini_config
from megareward.envs.mini.base import MiniGame
from megareward.envs.mini.games import make_mini
from megareward.errors import RunError, UsageError


def test_names_and_options_are_known_without_importing_torch():
    code = "import sys, megareward.envs.mini; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", MINI_GAMES)
def test_every_game_has_a_config_and_can_be_built(name):
    assert type(mini_config(name)) is MINI_GAMES[name].config
    assert isinstance(make_mini(name, 2), MiniGame)


@pytest.mark.parametrize("name", MINI_GAMES)
def test_config_survives_a_round_trip_through_plain_values(name):
    config = mini_config(name, size=40, max_steps=77, noisy_tv=True)
    assert mini_config(name, **asdict(config)) == config
    assert {field.name for field in fields(config)} >= {"size", "distractor", "death_flash", "moving_camera"}


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("mini-pong", {"size": 16}, "size=16"),
        ("mini-pong", {"size": 1000}, "32 to 256"),
        ("mini-demon", {"max_steps": 0}, "max_steps=0"),
        ("mini-demon", {"lives": 0}, "lives=0"),
        ("mini-breakout", {"lives": -2}, "lives=-2"),
        ("mini-pong", {"points": 0}, "points=0"),
        ("mini-pong", {"noisy_vt": True}, "Did you mean noisy_tv"),
        ("mini-breakout", {"opponent": True}, "no option 'opponent'"),
        ("mini-ping", {}, "Did you mean mini-pong"),
    ],
)
def test_impossible_options_are_refused_by_name(name, options, words):
    with pytest.raises(UsageError, match=words):
        mini_config(name, **options)


def test_a_game_refuses_the_config_of_another():
    with pytest.raises(UsageError, match="settings of mini-pong are of class PongConfig, not BreakoutConfig"):
        make_mini("mini-pong", 3, BreakoutConfig())


def test_an_empty_batch_is_refused():
    with pytest.raises(UsageError, match="n_envs=0"):
        make_mini("mini-pong", 0, PongConfig())


def test_actions_must_come_one_for_each_environment():
    env = make_mini("mini-pong", 3)
    with pytest.raises(UsageError, match=r"\(2,\).*3"):
        env.send(torch.zeros(2, dtype=torch.int64))


def test_send_and_recv_must_alternate():
    env = make_mini("mini-pong", 3)
    with pytest.raises(RunError, match="without send"):
        env.recv()
    env.send(torch.zeros(3, dtype=torch.int64))
    with pytest.raises(RunError, match="twice"):
        env.send(torch.zeros(3, dtype=torch.int64))
    with pytest.raises(RunError, match="under way"):
        env.state_dict()


def test_a_state_of_another_game_or_batch_is_refused():
    pong, breakout = make_mini("mini-pong", 3), make_mini("mini-breakout", 3)
    with pytest.raises(UsageError, match=r"'bar_x' is missing .* MiniBreakout"):
        breakout.load_state_dict(pong.state_dict())
    with pytest.raises(UsageError, match=r"\(5,\) in the state but \(3,\)"):
        pong.load_state_dict(make_mini("mini-pong", 5).state_dict())
