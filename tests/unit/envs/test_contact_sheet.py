"""The picture of all masks, on a few games."""

import numpy as np
import pytest
from PIL import Image

from megareward.envs import contact_sheet
from megareward.envs.contact_sheet import CAPTION, GAP, HEADER, STRETCH, draw_contact_sheet, random_screen
from megareward.errors import UsageError

PANEL = 160 * STRETCH


def panels(path, index: int) -> tuple[np.ndarray, np.ndarray]:
    """The left and the right picture (210 rows) of a tile in the first row."""
    sheet = np.asarray(Image.open(path).convert("RGB"))
    left = GAP + index * (2 * PANEL + GAP // 2 + 2 * GAP)
    right = left + PANEL + GAP // 2
    rows = slice(HEADER + CAPTION, HEADER + CAPTION + 210)
    return sheet[rows, left : left + PANEL], sheet[rows, right : right + PANEL]


def test_the_score_is_black_on_the_right_and_shown_on_the_left(tmp_path):
    draw_contact_sheet(tmp_path / "sheet.png", games=["pong", "breakout"])
    plain, boxed = panels(tmp_path / "sheet.png", 1)
    score = (slice(5, 15), slice(36 * STRETCH, 80 * STRETCH))
    assert plain[score].max() > 100
    assert boxed[score].max() < 10
    assert boxed[5 - 1, 40 * STRETCH].tolist() == pytest.approx(contact_sheet.COLOURS["score"], abs=8)
    assert np.abs(boxed[30:].astype(int) - plain[30:]).max() == 0


def test_games_without_boxes_are_dimmed_and_games_without_score_are_not(tmp_path):
    draw_contact_sheet(tmp_path / "sheet.png", games=["tetris", "yars_revenge"])
    plain, boxed = panels(tmp_path / "sheet.png", 0)
    assert boxed[:60].max() < plain[:60].max() / 2
    plain, boxed = panels(tmp_path / "sheet.png", 1)
    assert (boxed[:60] == plain[:60]).all()
    assert (boxed != plain).any()  # the words


def test_progress_is_told_after_every_game_and_the_picture_repeats(tmp_path):
    told = []
    for name in ("a.png", "b.png"):
        draw_contact_sheet(tmp_path / name, games=["air_raid", "pong"], progress=lambda *news: told.append(news))
    assert told == [(1, 2), (2, 2)] * 2
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_screen_is_as_high_as_the_game_draws_it():
    assert random_screen("air_raid").shape == (250, 160, 3)
    assert random_screen("pong").shape == (210, 160, 3)


@pytest.mark.filterwarnings("ignore:Rom Pong not supported")
def test_an_unknown_rom_is_refused_by_name():
    with pytest.raises(UsageError, match="'Pong'"):
        random_screen("Pong")


def test_a_folder_that_does_not_exist_is_refused_before_any_work(tmp_path):
    with pytest.raises(UsageError, match="nowhere"):
        draw_contact_sheet(tmp_path / "nowhere" / "sheet.png", progress=lambda *_: pytest.fail("worked first"))
