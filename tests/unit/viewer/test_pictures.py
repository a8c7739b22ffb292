"""Colours, clips and the paper's figure."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from megareward.errors import RunError, UsageError
from megareward.viewer import palette, video
from megareward.viewer.drawing import RAMPS, maps_of, overlay, picture
from megareward.viewer.figure import best_moment, case_study
from megareward.viewer.video import Painter, find_ffmpeg, write_video
from tests.unit.viewer.made import HW, PX_H, PX_W, H, T, W, made

# Colours -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RAMPS)
def test_a_ramp_can_be_read_without_colour(name):
    lightness = palette.brightness(RAMPS[name])
    assert (np.diff(lightness) >= -0.3).all()  # rounding to whole grey levels
    assert lightness[0] < 5
    assert lightness[-1] > 85
    even = np.linspace(lightness[0], lightness[-1], 256)
    assert np.abs(lightness - even).max() < 8


def test_a_map_colours_its_own_cells_only():
    values = np.zeros(HW)
    values[6] = 1.0  # row 1, column 2
    black = np.zeros((PX_H, PX_W), np.uint8)
    shown = overlay(black, values, H, W, RAMPS["g"])
    cell_h, cell_w = PX_H // H, PX_W // W
    inside = np.zeros((PX_H, PX_W), bool)
    inside[cell_h : 2 * cell_h, 2 * cell_w : 3 * cell_w] = True
    assert (shown[inside] == RAMPS["g"][255]).all()
    assert (shown[~inside] == RAMPS["g"][0]).all()


@pytest.mark.parametrize("value", [0.0, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("name", RAMPS)
def test_the_game_stays_visible_on_every_colour(name, value):
    for ground, shape in ((0, 120), (87, 147), (236, 90)):
        frame = np.full((PX_H, PX_W), ground, np.uint8)
        frame[0, 0] = shape
        shown = overlay(frame, np.full(HW, value), H, W, RAMPS[name])
        assert (shown[1, 1] == RAMPS[name][round(value * 255)]).all()  # the ground is the map's own colour
        lightness = palette.brightness(shown)
        assert abs(lightness[0, 0] - lightness[1, 1]) > 10


def test_a_map_beyond_one_is_scaled_to_its_maximum():
    recording = made()
    recording.learnt.g[:] *= 30
    maps = maps_of(recording)
    assert maps["g"].max() == 1.0
    assert maps["direct"].max() == recording.learnt.direct.max()
    assert picture(recording, maps, "g", 3).shape == (PX_H, PX_W, 3)


# Clips ---------------------------------------------------------------------------------------------------------------


def test_a_gif_has_every_step_and_goes_round(tmp_path):
    recording = made(60, truth=True)
    path = write_video(recording, tmp_path / "clip.gif", start=5, steps=20)
    with Image.open(path) as clip:
        assert clip.n_frames == 20
        assert clip.size == (Painter(recording).width, Painter(recording).height)
        assert clip.info["loop"] == 0
        assert clip.info["duration"] == 70


@pytest.mark.parametrize(("learnt", "truth", "panels"), [(False, False, 1), (True, False, 3), (True, True, 5)])
def test_the_clip_shows_one_panel_per_map(learnt, truth, panels):
    recording = made(40, learnt=learnt, truth=truth)
    painter = Painter(recording)
    image = painter.image(30)
    assert image.shape[1] == pytest.approx(panels * (painter.panel_w + 12) + 12, abs=1)
    frame = image[video.HEAD : video.HEAD + painter.panel_h, video.GAP : video.GAP + painter.panel_w, 0]
    assert np.array_equal(frame[:: painter.scale, :: painter.scale], recording.frames[30])


def test_a_clip_of_other_steps_than_there_are_is_refused(tmp_path):
    with pytest.raises(UsageError, match="Steps 30 to 50 do not lie in a recording of 40 steps"):
        write_video(made(40), tmp_path / "clip.gif", start=30, steps=20)
    with pytest.raises(UsageError, match=r"ends in '.avi'; a video ends in .gif or .mp4"):
        write_video(made(40), tmp_path / "clip.avi")


def test_without_ffmpeg_an_mp4_is_refused_with_two_remedies(monkeypatch):
    monkeypatch.setattr(video.shutil, "which", lambda name: None)
    monkeypatch.setattr(video.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"clip\.mp4 needs ffmpeg.*pip install imageio-ffmpeg.*clip\.gif"):
        find_ffmpeg(Path("clip.mp4"))


def encoder(path: Path, body: str) -> str:
    path.write_text(f"#!{sys.executable}\nimport sys\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_an_mp4_is_handed_to_ffmpeg_image_by_image(tmp_path, monkeypatch):
    program = encoder(tmp_path / "ffmpeg", "open(sys.argv[-1], 'wb').write(sys.stdin.buffer.read())")
    monkeypatch.setattr(video, "find_ffmpeg", lambda wanted: program)
    recording = made(40)
    path = write_video(recording, tmp_path / "clip.mp4", start=2, steps=6)
    painter = Painter(recording)
    assert painter.width % 2 == painter.height % 2 == 0
    got = np.frombuffer(path.read_bytes(), np.uint8).reshape(6, painter.height, painter.width, 3)
    assert np.array_equal(got[4], painter.image(6))


def test_what_ffmpeg_complains_about_is_passed_on(tmp_path, monkeypatch):
    program = encoder(tmp_path / "ffmpeg", "sys.exit('no such codec')")
    monkeypatch.setattr(video, "find_ffmpeg", lambda wanted: program)
    with pytest.raises(RunError, match=r"ffmpeg could not write .*clip\.mp4: no such codec"):
        write_video(made(40), tmp_path / "clip.mp4")


# The figure ----------------------------------------------------------------------------------------------------------


def with_rewards(*places: int) -> np.ndarray:
    reward = np.zeros(T, np.float32)
    reward[list(places)] = 1
    return reward


def moment(*places: int, columns: int = 11, every: int = 1) -> int:
    recording = made()
    return best_moment(
        replace(recording, learnt=replace(recording.learnt, mega_reward=with_rewards(*places))), columns, every
    )


def test_the_figure_shows_where_most_is_earned_in_play():
    assert 300 - 10 <= moment(300, 301) <= 300
    assert moment(300, 305, 500, columns=6) == 300
    assert 300 <= moment(300, 320, 450, columns=11, every=2) <= 300  # 21 steps reach both


def test_the_opening_of_a_game_and_a_change_of_game_are_not_chosen():
    assert 120 <= moment(5, 6, 7, 8, 130) <= 130
    assert 95 <= moment(198, 199, 200, 201, 100, 101, 102, 105) <= 100


def test_a_short_recording_may_show_an_opening():
    recording = made(30)
    assert 0 <= best_moment(recording, 11) <= 19


@pytest.mark.parametrize("truth", [False, True])
def test_the_figure_is_drawn_as_png_and_pdf(tmp_path, truth):
    png, pdf = case_study(made(truth=truth), tmp_path / "case.any", columns=11, every=2)
    assert (png.name, pdf.name) == ("case.png", "case.pdf")
    assert pdf.read_bytes().startswith(b"%PDF")
    with Image.open(png) as image:
        width, height = image.size
    rows = 5 if truth else 3
    assert width == 2300
    assert height == pytest.approx(124 + 12 + rows * 1.08 * 174 * PX_H / PX_W + 139, rel=0.06)


def test_what_cannot_be_drawn_is_refused(tmp_path):
    with pytest.raises(UsageError, match="trained with 'mega' and has no control maps"):
        case_study(made(learnt=False), tmp_path / "case")
    with pytest.raises(UsageError, match="11 frames, 4 steps apart, need 41 steps; only 40 were recorded"):
        case_study(made(40), tmp_path / "case", every=4)
    with pytest.raises(UsageError, match="--start is 35; 11 frames from there do not fit into 40 steps"):
        case_study(made(40), tmp_path / "case", start=35)
    with pytest.raises(UsageError, match="--columns is 1"):
        case_study(made(40), tmp_path / "case", columns=1)
    assert list(tmp_path.iterdir()) == []
