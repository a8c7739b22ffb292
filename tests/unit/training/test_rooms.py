"""Rooms visited: each counts once a game, and a new game begins without any."""

from dataclasses import replace

import pytest
import torch

from megareward.cli import main
from megareward.counterfactual.plain_atari import PlainAtari
from megareward.envs.atari_config import AtariConfig
from megareward.errors import UsageError
from megareward.training import evaluate
from megareward.training.config import TrainConfig
from megareward.training.evaluate import Evaluation, play
from megareward.training.rooms import Rooms, require_rooms

MONTEZUMA = AtariConfig(max_frames=160, life_loss_is_terminal=False)


def test_a_room_counts_once_in_each_game():
    atari = PlainAtari("montezuma_revenge", 2, MONTEZUMA, hide_score=True)
    atari.reset(0)
    rooms = Rooms("montezuma_revenge", atari)
    for room in (1, 2, 1):
        atari._emulator.games[0].emulator.ale.setRAM(3, room)
        rooms.look()
    assert rooms.close(0) == [1, 2]
    rooms.look()
    assert (rooms.close(0), rooms.close(1)) == ([1], [1])


def test_whole_games_note_the_rooms_of_each(monkeypatch):
    looks, look = [], Rooms.look

    def visit(self):
        """Environment 0 is put into room 5 once, in its first game."""
        looks.append(None)
        if len(looks) == 10:
            self.atari._emulator.games[0].emulator.ale.setRAM(3, 5)
        look(self)

    monkeypatch.setattr(Rooms, "look", visit)
    monkeypatch.setattr(evaluate, "MAX_ENVS", 2)
    config = replace(TrainConfig("rnd", "montezuma_revenge"), env=MONTEZUMA)
    games = play(config, None, 4, rooms=True, device=torch.device("cpu"))
    assert sorted(game.rooms for game in games) == [[1], [1], [1], [1, 5]]
    assert Evaluation(0, 0, False, [0.0] * 4, 4, rooms=[game.rooms for game in games]).rooms_visited == (1.25, [1, 5])


def test_a_game_whose_rooms_are_unknown_is_refused(capsys, tmp_path):
    with pytest.raises(UsageError, match=r"it is not known where pong keeps its room; known: montezuma_revenge\."):
        require_rooms("pong")
    run = tmp_path / "run"
    assert (
        main(["train", "random", "--game", "mini-pong", "--frames", "400", "--out", str(run), "--no-tensorboard"]) == 0
    )
    assert main(["eval", str(run), "--episodes", "1", "--rooms"]) == 2
    assert "it is not known where mini-pong keeps its room" in capsys.readouterr().err
