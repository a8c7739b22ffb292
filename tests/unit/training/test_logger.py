"""Numbers and times as the progress line shows them, and what reaches the logs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from megareward.training.config import TrainConfig
from megareward.training.logger import Logger, count, duration
from megareward.training.run_folder import RunFolder
from megareward.training.score_book import Episode


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1k"),
        (1234, "1.23k"),
        (12_345, "12.3k"),
        (999_400, "999k"),
        (999_999, "1M"),
        (1_234_567, "1.23M"),
        (80_000_000, "80M"),
        (2_500_000_000, "2.5G"),
    ],
)
def test_counts_have_three_digits_and_a_letter(number, text):
    assert count(number) == text


@given(st.floats(0, 9.99e11))
def test_no_count_is_ever_shown_with_an_exponent_and_all_are_right_to_half_a_percent(number):
    text = count(number)
    assert "e" not in text
    size = {"k": 1e3, "M": 1e6, "G": 1e9}.get(text[-1], 1.0)
    assert float(text.rstrip("kMG")) * size == pytest.approx(number, rel=0.0051, abs=0.5)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0m00s"), (59.6, "1m00s"), (61, "1m01s"), (3599, "59m59s"), (3700, "1h01m"), (float("inf"), "99h59m")],
)
def test_durations_are_minutes_and_seconds_or_hours_and_minutes(seconds, text):
    assert duration(seconds) == text


def test_every_iteration_is_a_line_of_metrics_and_every_game_a_line_of_scores(tmp_path, capsys):
    folder = RunFolder.create(tmp_path / "run", TrainConfig(method="extrinsic"), {})
    logger = Logger(folder, 0, 96, tensorboard=False, quiet=True)
    game = Episode(frames=30, score=-2.5, steps=10, env=1, cut=True)
    logger.log(24, {"loss/policy": 0.5}, [], None)
    logger.log(48, {"loss/policy": 0.25}, [game, game], -2.5)
    written = [folder.rows(log) for log in ("metrics.jsonl", "scores.jsonl")]  # on disk before it is closed
    logger.close()
    assert written[0] == [{"frames": 24, "loss/policy": 0.5}, {"frames": 48, "loss/policy": 0.25, "score": -2.5}]
    assert written[1] == 2 * [{"frames": 30, "score": -2.5, "steps": 10, "env": 1, "cut": True}]
    assert capsys.readouterr() == ("", "")


def test_the_line_tells_progress_pace_score_and_losses(tmp_path, capsys):
    folder = RunFolder.create(tmp_path / "run", TrainConfig(method="extrinsic"), {})
    logger = Logger(folder, 0, 2000, tensorboard=False, quiet=False)
    logger.log(2000, {"loss/policy": 0.125, "seconds/act": 1.0}, [], 3.25)
    logger.say("That was all.")
    logger.close()
    out, err = capsys.readouterr()
    assert out == ""
    for part in ("100%", "2k of 2k frames", "/s", "left", "score 3.25", "policy 0.125", "That was all."):
        assert part in err


def test_tensorboard_files_appear_in_the_runs_folder(tmp_path):
    folder = RunFolder.create(tmp_path / "run", TrainConfig(method="extrinsic"), {})
    logger = Logger(folder, 0, 2000, tensorboard=True, quiet=True)
    logger.log(24, {"loss/policy": 0.5}, [], None)
    logger.close()
    assert list((folder.path / "tensorboard").glob("events.*"))
