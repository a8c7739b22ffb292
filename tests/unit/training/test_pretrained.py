"""Agents that come with the package: they can be found, they are small, and they play."""

import re

import pytest
import torch

from megareward.cli import main
from megareward.errors import UsageError
from megareward.runs.folder import RunFolder
from megareward.training.config import read_config
from megareward.training.evaluate import evaluate_run
from megareward.training.pretrained import FOLDER, find_pretrained, pretrained_games

CPU = torch.device("cpu")


def files():
    return {path: path.stat().st_mtime_ns for path in FOLDER.rglob("*")}


@pytest.mark.parametrize("game", pretrained_games())
def test_every_agent_is_small_and_says_where_it_comes_from(game):
    folder = find_pretrained(game)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 3_000_000
    text = (folder / "README.md").read_text()
    assert re.match(
        rf"# {game}, mega, seed \d+\n\nTrained for [\d.]+[kM] frames; "
        r"mean score [\d.]+ \+- [\d.]+ over \d+ whole games. Made by commit [0-9a-f]{40} of megareward ",
        text,
    )


@pytest.mark.parametrize("game", pretrained_games())
def test_no_agent_is_older_than_a_setting_that_matters_to_it(game):
    read_config(RunFolder.open(find_pretrained(game)), warn=pytest.fail)


def test_an_agent_is_found_in_any_spelling_and_a_list_answers_what_there_is_not():
    assert find_pretrained("Mini-Breakout") == FOLDER / "mini-breakout"
    for name in ("qbert", "no such game"):
        with pytest.raises(UsageError, match=rf"No agent for '{name}' comes with .* {', '.join(pretrained_games())}\."):
            find_pretrained(name)


def test_the_page_is_written_where_the_user_is_and_nothing_into_the_package(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = files()
    assert main(["watch", "--pretrained", "mini-breakout", "--steps", "30", "--device", "cpu"]) == 0
    assert "Wrote watch-mini-breakout.html" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["watch-mini-breakout.html", "watch-mini-breakout.png"]
    assert "mini-breakout, mega" in (tmp_path / "watch-mini-breakout.html").read_text()
    assert files() == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Give either the folder of a run or --pretrained GAME, where GAME is"),
        (["run", "--pretrained", "breakout"], "Give either the folder of a run or --pretrained GAME"),
        (["--pretrained", "mini-breakout", "--live"], "--live is for runs of your own"),
        (["--pretrained", "mini-breakout", "--audited"], "--audited is for runs of your own"),
        (["--pretrained", "chess"], "No agent for 'chess' comes with megareward"),
    ],
)
def test_what_cannot_be_watched_is_refused_in_one_sentence(words, sentence, capsys):
    assert main(["watch", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_the_small_agent_plays_as_well_as_its_page_says():
    """Far from random play (about 1.5), though its weights were rounded."""
    folder = find_pretrained("mini-breakout")
    said = float(re.search(r"mean score ([\d.]+)", (folder / "README.md").read_text())[1])
    assert evaluate_run(folder, 16, device=CPU).mean > 0.6 * said
