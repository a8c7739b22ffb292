"""watch, figure and report on the command line: what they write, what they say, what they refuse."""

import re
from pathlib import Path

import pytest
from PIL import Image

from megareward.cli import main, play, watch
from megareward.training.run import start
from megareward.viewer import video
from tests.seams.small_runs import QUIET, small
from tests.unit.viewer.test_page import element, facts_of

SHORT = ["--steps", "30", "--device", "cpu"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    return start(small("mega"), tmp_path_factory.mktemp("runs") / "mega", **QUIET).path


def test_watch_leaves_a_page_and_its_picture_in_the_run_and_a_clip_where_asked(trained, tmp_path, capsys):
    clip, other = tmp_path / "new" / "clip.gif", tmp_path / "other.gif"
    assert main(["watch", *SHORT, "--video", str(clip), "--video", str(other), "--video-steps", "8", str(trained)]) == 0
    assert other.exists()
    out = capsys.readouterr().out
    assert f"Wrote {trained / 'watch.html'} (0." in out
    assert "mini-pong, mega" in (trained / "watch.html").read_text()
    with Image.open(trained / "watch.png") as picture, Image.open(clip) as film:
        assert picture.size == film.size
        assert film.n_frames == 8


def test_an_audit_is_watched_without_saying_again_who_played(tmp_path, capsys):
    run = start(small("mega"), tmp_path / "run", **QUIET).path
    assert main(["watch", str(run), "--audited"]) == 2
    assert f"`megareward audit {run} --policy random` finds the truth first" in capsys.readouterr().err
    short = ["--episodes", "2", "--frames", "9", "--lags", "3", "--device", "cpu"]
    for words, at_random in (([], True), (["--policy", "trained"], False)):
        assert main(["audit", str(run), *short, *words]) == 0
        assert main(["watch", str(run), "--audited", "--device", "cpu"]) == 0
        assert ("mega, random play" in (run / "watch.html").read_text()) == at_random
    capsys.readouterr()
    assert main(["watch", str(run), *SHORT]) == 0
    assert f"`megareward watch {run} --audited` shows the truth" in capsys.readouterr().out


def test_watch_writes_elsewhere_if_asked_and_warns_of_a_large_page(trained, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(watch, "LARGE", 0.001)
    assert main(["watch", str(trained), *SHORT, "--out", str(tmp_path / "talk.html")]) == 0
    assert "fewer --steps make it smaller" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["talk.html", "talk.png"]


def test_two_runs_are_watched_beside_each_other_from_the_same_start(trained, tmp_path, capsys):
    other = start(small("rnd"), tmp_path / "rnd", **QUIET).path
    kept = trained / "watch.html"
    kept.unlink(missing_ok=True)
    for beside, method in ((str(other), "rnd"), ("random", "mega, random play")):
        assert main(["watch", str(trained), "--beside", beside, *SHORT]) == 0
        assert f"Wrote {trained / 'watch-beside.html'} (" in capsys.readouterr().out
        text = (trained / "watch-beside.html").read_text()
        assert f"mini-pong, mega beside {method}: what" in text
        px_h, px_w = facts_of(text)["size"]
        openings = {element(text, f"chunk-{number}-0")[: px_h * px_w] for number in (0, 1)}
        assert len(openings) == 1
    assert not kept.exists()


def test_the_case_study_is_drawn_into_the_run(trained, capsys):
    assert main(["figure", "case-study", "--run", str(trained), *SHORT, "--columns", "5"]) == 0
    assert capsys.readouterr().out == f"Drew {trained / 'case-study.png'} and {trained / 'case-study.pdf'}.\n"
    assert (trained / "case-study.pdf").read_bytes().startswith(b"%PDF")


def test_report_makes_the_missing_case_study_if_asked(tmp_path, capsys):
    run = start(small("mega"), tmp_path / "run", **QUIET).path
    assert main(["report", str(run), "--watch", *SHORT]) == 0
    assert capsys.readouterr().out == f"Wrote {run / 'report.html'}.\n"
    assert (run / "watch.html").exists()
    assert 'href="watch.html"' in (run / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("watch nowhere", "nowhere does not exist"),
        ("watch nowhere --video clip.avi", "'clip.avi' ends in '.avi'; a video ends in .gif or .mp4."),
        ("watch nowhere --video clip.mp4", "clip.mp4 needs ffmpeg, which is not on the path."),
        ("figure", "Which figure? `megareward figure NAME`; figures: case-study, curves, masks, things."),
        ("figure case-studdy", "There is no figure 'case-studdy'. Did you mean case-study?"),
        ("figure case-study --run nowhere", "nowhere does not exist"),
        ("figure curves nowhere", "nowhere does not exist; name records or folders that hold some"),
        ("report", "Which run? `megareward report RUN...`"),
        ("report nowhere", "nowhere does not exist"),
    ],
)
def test_a_mistake_gets_one_sentence_and_status_2_and_leaves_nothing(words, sentence, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(video.shutil, "which", lambda name: None)
    monkeypatch.setattr(video.importlib.util, "find_spec", lambda name: None)
    assert main(words.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_maps_has_no_case_study(tmp_path, capsys):
    run = start(small("extrinsic"), tmp_path / "run", **QUIET).path
    assert main(["figure", "case-study", "--run", str(run), *SHORT]) == 2
    assert "has no control maps" in capsys.readouterr().err
    assert main(["watch", str(run), *SHORT]) == 0


def test_play_ends_with_the_place_of_its_report(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(play, "EPISODES", 2)
    monkeypatch.setattr(play, "with_preset", lambda config, preset: small("mega", frames=600))
    assert main(["play"]) == 0
    assert {"curve.png", "control.png", "watch.html"} <= {file.name for file in (tmp_path / "runs" / "play").iterdir()}
    report = tmp_path / "runs" / "play" / "report.html"
    assert capsys.readouterr().out.splitlines()[-1] == f"The report, for any browser: {report.as_uri()}"
    text = report.read_text()
    assert re.search(r"<tspan class=.faint.>random −?[\d.]+<", text)
    assert 'href="watch.html"' in text
