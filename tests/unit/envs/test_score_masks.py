"""Boxes as data, boxes in frame pixels, and painting."""

import numpy as np
import pytest
import torch
from ale_py import ALEInterface, LoggerMode, roms
from hypothesis import given, settings
from hypothesis import strategies as st

from megareward.envs import games, score_masks
from megareward.envs.score_masks import Box, FrameBox
from megareward.errors import UsageError

BOXES_84 = {
    # Measured boxes of the paper's games in an 84x84 frame, as x0, y0, x1, y1; typed in, not computed.
    "seaquest": [(30, 3, 56, 7)],
    "bowling": [(8, 7, 32, 14)],
    "venture": [(0, 3, 25, 7)],
    "wizard_of_wor": [(56, 1, 78, 4)],
    "asterix": [(29, 73, 54, 77)],
    "robotank": [(16, 8, 63, 17)],
    "beam_rider": [(32, 4, 57, 8)],
    "battle_zone": [(34, 72, 59, 76)],
    "kung_fu_master": [(12, 8, 37, 11)],
    "centipede": [(52, 74, 78, 78)],
    "pong": [(10, 0, 26, 9), (52, 0, 68, 9)],
    "air_raid": [(29, 3, 54, 7)],
    "double_dunk": [(19, 3, 27, 7), (53, 3, 61, 7)],
    "demon_attack": [(29, 2, 54, 7)],
    "berzerk": [(29, 73, 55, 76)],
    "breakout": [(18, 2, 42, 6)],
    "jamesbond": [(28, 6, 54, 9)],
    "up_n_down": [(8, 2, 33, 6)],
    "montezuma_revenge": [(29, 2, 54, 6)],
    "gravitar": [(29, 2, 54, 5)],
    "pitfall": [(11, 3, 36, 7)],
    "private_eye": [(30, 3, 56, 7)],
    "solaris": [(30, 2, 56, 5)],
}


def measured_games() -> list[str]:
    return [rom for rom in games.atari_games() if score_masks.score_display(rom) != "unknown"]


def test_62_games_were_measured():
    assert len(measured_games()) == 62


@pytest.mark.parametrize("rom", BOXES_84)
def test_boxes_of_the_papers_games_in_an_84x84_frame_are_the_measured_ones(rom):
    assert score_masks.frame_boxes(rom) == BOXES_84[rom]


def test_every_box_lies_on_its_screen():
    for rom in measured_games():
        rows, columns = score_masks.game_screen(rom).shape
        for box in score_masks.boxes(rom, lives=True, other=True):
            assert box.w > 0, rom
            assert box.h > 0, rom
            assert 0 <= box.x <= box.x + box.w <= columns, rom
            assert 0 <= box.y <= box.y + box.h <= rows, rom


def test_lives_and_other_counters_come_only_when_asked_for():
    score, lives, player = Box(36, 5, 44, 10), Box(100, 5, 12, 10), Box(136, 5, 4, 10)
    assert score_masks.boxes("breakout") == [score]
    assert score_masks.boxes("breakout", lives=True) == [score, lives]
    assert score_masks.boxes("breakout", score=False, lives=True, other=True) == [lives, player]


def test_a_score_that_is_never_drawn_differs_from_one_nobody_measured():
    assert score_masks.score_display("pong") == "box"
    assert score_masks.score_display("yars_revenge") == "not shown"
    assert score_masks.score_display("tetris") == "unknown"
    assert score_masks.boxes("yars_revenge") == score_masks.boxes("tetris") == []


def test_a_game_never_measured_is_refused_unless_the_user_accepts_a_visible_score():
    with pytest.raises(UsageError, match=r"score of tetris.*--env\.allow-visible-score"):
        score_masks.require_boxes("tetris", allow_visible_score=False)
    score_masks.require_boxes("tetris", allow_visible_score=True)
    score_masks.require_boxes("yars_revenge", allow_visible_score=False)
    score_masks.require_boxes("pong", allow_visible_score=False)


def area_shrink(length: int, px: int) -> np.ndarray:
    """Matrix (px, length) of area averaging, in units of 1/px of a native pixel, so that zero is exactly zero."""
    edges = np.arange(length + 1) * px
    cells = np.arange(px + 1)[:, None] * length
    return (np.minimum(edges[1:], cells[1:]) - np.maximum(edges[:-1], cells[:-1])).clip(0)


@settings(deadline=None)
@given(data=st.data())
def test_a_converted_box_holds_exactly_the_pixels_that_averaging_areas_can_reach(data):
    rows, columns = data.draw(st.sampled_from([210, 214, 220, 230, 250])), 160
    px_h, px_w = data.draw(st.integers(5, 160)), data.draw(st.integers(5, 160))
    x, y = data.draw(st.integers(0, columns - 1)), data.draw(st.integers(0, rows - 1))
    box = Box(x, y, data.draw(st.integers(1, columns - x)), data.draw(st.integers(1, rows - y)))
    screen = np.zeros((rows, columns), int)
    screen[box.y : box.y + box.h, box.x : box.x + box.w] = 1
    reached = area_shrink(rows, px_h) @ screen @ area_shrink(columns, px_w).T > 0  # (px_h, px_w)

    painted = np.zeros((1, px_h, px_w), bool)
    x0, y0, x1, y1 = score_masks.to_frame(box, (rows, columns), (px_h, px_w))
    painted[:, y0:y1, x0:x1] = True
    assert (painted[0] == reached).all()


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_painting_blackens_the_boxes_of_every_frame_in_place_and_nothing_else(library):
    N, px_h, px_w = 3, 5, 7
    frames = np.full((N, px_h, px_w), 200, np.uint8) if library == "numpy" else torch.full((N, px_h, px_w), 200)
    assert score_masks.paint(frames, [FrameBox(x0=1, y0=0, x1=3, y1=2), FrameBox(x0=6, y0=4, x1=7, y1=5)]) is None
    expected = np.full((px_h, px_w), 200)
    expected[0:2, 1:3] = 0
    expected[4, 6] = 0
    for n in range(N):
        assert np.asarray(frames[n]).tolist() == expected.tolist()


@pytest.mark.parametrize("rom", ["asterix", "boxing", "carnival", "demon_attack", "tennis"])
def test_what_a_box_covers_changes_with_the_score_and_not_before(rom):
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(roms.get_rom_path(rom))
    ale.reset_game()
    for _ in range(30):  # some games draw their score only after a moment
        ale.act(0)

    def covered() -> np.ndarray:
        screen = ale.getScreenGrayscale()
        return np.concatenate([screen[y : y + h, x : x + w].ravel() for x, y, w, h in score_masks.boxes(rom)])

    actions, rng = ale.getMinimalActionSet(), np.random.default_rng(0)
    at_start, points = covered(), 0
    for action in rng.integers(len(actions), size=200):
        assert (covered() == at_start).all()
        points = sum(ale.act(actions[action]) for _ in range(4))
        if points:
            break
    assert points
    assert (covered() != at_start).any()
