"""`megareward figure things` draws what is seen as a thing, of a game and not of a run."""

import pytest
import torch

from megareward.cli import main
from megareward.control.config import ThingsConfig
from megareward.viewer.things import things_of


@pytest.mark.parametrize("sight", ["contrast", "level"])
def test_a_row_is_drawn_for_each_game(sight, tmp_path, capsys):
    options = ["--out", str(tmp_path / "seen"), "--columns", "2", "--steps", "30", "--sight", sight]
    assert main(["figure", "things", "mini-pong", "mini-road", *options]) == 0
    assert all((tmp_path / f"seen.{suffix}").stat().st_size > 1000 for suffix in ("png", "pdf"))
    assert "Drew" in capsys.readouterr().out


def test_boxes_are_those_of_what_is_not_background():
    frames = torch.zeros(9, 2, 32, 32, dtype=torch.uint8)
    for t in range(9):
        frames[t, :, 3:5, 2 * t : 2 * t + 4] = 200
    background, found = things_of(frames, frames[[0, 8], 0], ThingsConfig(slots=5))
    assert not background.any()
    assert found[:, 0, :5].tolist() == [[3, 0, 4, 3, 8], [3, 16, 4, 19, 8]]
    assert not found[:, 1:].any()


@pytest.mark.parametrize(
    ("words", "said"),
    [([], "Of which game?"), (["mini-pnog"], "mini-pong"), (["mini-pong", "--steps", "0"], "--steps 0")],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(words, said, tmp_path, capsys):
    assert main(["figure", "things", *words, "--out", str(tmp_path / "seen")]) == 2
    assert said in capsys.readouterr().err
