"""What reaches the logs."""

import time

from megareward.training.config import TrainConfig, create_run
from megareward.training.line import Now, ProgressLine
from megareward.training.logger import Logger
from megareward.training.score_book import Episode


def test_every_iteration_is_a_line_of_metrics_and_every_game_a_line_of_scores(tmp_path, capsys):
    folder = create_run(tmp_path / "run", TrainConfig(method="extrinsic"), {})
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
    folder = create_run(tmp_path / "run", TrainConfig(method="extrinsic"), {})
    logger = Logger(folder, 0, 2000, tensorboard=False, quiet=False)
    logger.log(2000, {"loss/policy": 0.125, "seconds/act": 1.0}, [], 3.25)
    logger.say("That was all.")
    logger.close()
    out, err = capsys.readouterr()
    assert out == ""
    for part in ("100%", "2k of 2k frames", "/s", "left", "score 3.25", "policy 0.125", "That was all."):
        assert part in err


def test_tensorboard_files_appear_in_the_runs_folder(tmp_path):
    folder = create_run(tmp_path / "run", TrainConfig(method="extrinsic"), {})
    logger = Logger(folder, 0, 2000, tensorboard=True, quiet=True)
    logger.log(24, {"loss/policy": 0.5}, [], None)
    logger.close()
    assert list((folder.path / "tensorboard").glob("events.*"))


def test_the_line_moves_within_a_rollout_and_tells_of_the_warmup_and_of_signals(monkeypatch, capsys):
    monkeypatch.setattr(ProgressLine, "PLAIN_EVERY", 0.01)
    asked = []

    def now():
        asked.append(300 * len(asked))
        return Now(asked[-1], "plays", 2_000)

    line = ProgressLine(now, 10_000, quiet=False)
    line.announce("Ctrl-C: stopping.")  # also wakes it up
    while len(asked) < 14:
        time.sleep(0.005)
    line.close()
    lines = capsys.readouterr().err.splitlines()  # once all is said: reading takes away what is being written
    assert all(line.startswith("Ctrl-C: stopping.") and "plays" in line for line in lines)
    assert "300 of 10k frames" in lines[0]
    assert "warm-up: random play, 300 of 2k frames" in lines[0]
    assert "warm-up" not in lines[-1]
    assert len(set(lines)) == len(lines)
