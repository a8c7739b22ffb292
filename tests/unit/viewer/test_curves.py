"""Score against frames for records: which are drawn, how they are named, and what is refused."""

import json
from pathlib import Path

import pytest

from megareward.analysis.results import length, read_records
from megareward.cli import main
from megareward.errors import RunError, UsageError
from megareward.viewer.curves import STYLES, choose, draw_curves


def record(game: str = "pong", method: str = "mega", frames: int = 10_000_000, seed: int = 0, **more) -> dict:
    score = -15.5
    points = [[frames // 2, -20.0], [frames, score]]
    plan = {"frames": more.pop("planned", frames)}
    about = {"game": game, "method": method, "seed": seed, "frames": frames, "score": score}
    return {**about, "curve": points, "config": plan, **more}


def kept(folder: Path, *records: dict) -> Path:
    for n, one in enumerate(records):
        (folder / one["game"]).mkdir(exist_ok=True, parents=True)
        (folder / one["game"] / f"{n}.json").write_text(json.dumps(one))
    return folder


def test_records_are_found_in_folders_and_by_name_and_other_files_are_passed_over(tmp_path):
    folder = kept(tmp_path / "runs", record(), record("breakout"))
    (folder / "table.json").write_text("[1, 2]")
    (folder / "bench.json").write_text('{"game": "pong"}')
    assert [one["game"] for one in read_records([folder])] == ["breakout", "pong"]
    assert [one["game"] for one in read_records([folder / "pong" / "0.json"])] == ["pong"]


def test_games_come_in_the_order_asked_for_and_by_any_spelling():
    records = [record("pong"), record("breakout"), record("pong", seed=1)]
    assert {game: len(members) for game, members in choose(records, ()).items()} == {"breakout": 1, "pong": 2}
    assert list(choose(records, ("Pong", "Breakout"))) == ["pong", "breakout"]


def test_what_cannot_be_drawn_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(UsageError, match="No run on freeway is recorded; games with records: breakout, pong"):
        choose([record("pong"), record("breakout")], ("freeway",))
    with pytest.raises(UsageError, match="`megareward results add RUN` makes one"):
        choose([], ())
    with pytest.raises(UsageError, match="nowhere does not exist"):
        read_records([tmp_path / "nowhere"])
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(RunError, match=r"broken\.json is not valid JSON"):
        read_records([tmp_path])
    with pytest.raises(UsageError, match="create it or choose another place"):
        draw_curves({"pong": [record()]}, tmp_path / "nowhere" / "curves")


def test_a_run_that_is_not_over_says_so():
    assert length(record(finished=True)) == "10M"
    assert length(record(frames=71_598_080, planned=80_000_000, finished=False)) == "71.6M of 80M"


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


def test_the_command_draws_what_is_recorded(tmp_path, capsys):
    folder, out = kept(tmp_path / "runs", record(), record("breakout")), tmp_path / "both"
    assert main(["figure", "curves", str(folder), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"Drew {out}.png and {out}.pdf.\n"
    assert main(["figure", "--help"]) == 0
    assert "curves [RECORD...]" in capsys.readouterr().out
