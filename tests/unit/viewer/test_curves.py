"""Score against frames for records: which are drawn, how they are named, and what is refused."""

from dataclasses import replace

import pytest

from megareward.cli import main
from megareward.errors import UsageError
from megareward.viewer.curves import STYLES, choose, draw_curves
from tests.unit.records import make_record as record


def test_games_come_in_the_order_asked_for_and_by_any_spelling():
    records = [record("pong"), record("breakout"), record("pong", seed=1)]
    assert {game: len(members) for game, members in choose(records, ()).items()} == {"breakout": 1, "pong": 2}
    assert list(choose(records, ("Pong", "Breakout"))) == ["pong", "breakout"]


def test_what_cannot_be_drawn_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(UsageError, match="No run on freeway is recorded; games with records: breakout, pong"):
        choose([record("pong"), record("breakout")], ("freeway",))
    with pytest.raises(UsageError, match="`megareward results add RUN` makes one"):
        choose([], ())
    with pytest.raises(UsageError, match="create it or choose another place"):
        draw_curves({"pong": [record()]}, tmp_path / "nowhere" / "curves")


def test_lines_differ_by_method_and_seeds_share_a_label_and_a_far_level_does_not_flatten(tmp_path, monkeypatch):
    import matplotlib.pyplot as plt

    kept_open = []
    monkeypatch.setattr(plt, "close", kept_open.append)
    records = [record("seaquest", method, seed=seed) for method in ("mega", "rnd") for seed in (0, 1)]
    paths = draw_curves({"seaquest": records}, tmp_path / "curves.png")
    assert [path.name for path in paths] == ["curves.png", "curves.pdf"]
    assert paths[1].read_bytes().startswith(b"%PDF")
    axes = kept_open[0].axes[0]
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names[:2] == ["mega, 10M", "rnd, 10M"]
    assert "human: 20181.8 (far off)" in names
    assert axes.get_ylim()[1] < 0  # the curves lie at -20
    assert [line.get_color() for line in axes.lines[:4]] == [STYLES[m][0] for m in ("mega", "mega", "rnd", "rnd")]
    monkeypatch.undo()
    plt.close("all")


def test_a_run_without_a_finished_game_draws_no_line(tmp_path):
    unscored = replace(record(), score=None, curve=[])
    assert all(path.exists() for path in draw_curves({"pong": [record(), unscored]}, tmp_path / "curves.png"))


def test_the_command_draws_what_is_recorded(tmp_path, capsys):
    folder, out = tmp_path / "runs", tmp_path / "both"
    for game in ("pong", "breakout"):
        record(game).write(folder / f"{game}.json")
    assert main(["figure", "curves", str(folder), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"Drew {out}.png and {out}.pdf.\n"
    assert main(["figure", "--help"]) == 0
    assert "curves [RECORD...]" in capsys.readouterr().out
