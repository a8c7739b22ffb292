"""The ledger of runs, its table, and the report of one run."""

from dataclasses import replace
from pathlib import Path

import pytest

from megareward.analysis.describe import describe_run, draw_curve
from megareward.analysis.published import published, published_score
from megareward.analysis.results import COLUMNS, add_run, over_seeds, table
from megareward.envs.games import atari_games
from megareward.errors import UsageError
from megareward.runs.folder import RunFolder
from megareward.runs.logs import save_random_score
from megareward.runs.record import Record, read_records
from megareward.training.config import TrainConfig, create_run, to_dict


def finished_run(path: Path, scores: list[float], *, commit: str | None = "0123456789abcdef", **config) -> Path:
    """A run's folder as training leaves it, one game per 1000 frames."""
    settings = {"method": "extrinsic", "game": "pong", "frames": 1000 * len(scores), **config}
    folder = create_run(path, TrainConfig(**settings), {"commit": commit})
    folder.append("metrics.jsonl", {"frames": 1000 * len(scores)})
    for i, score in enumerate(scores):
        folder.append("scores.jsonl", {"frames": 1000 * (i + 1), "score": score, "steps": 9, "env": 0, "cut": False})
    return folder.path


# The ledger ----------------------------------------------------------------------------------------------------------


def test_a_run_becomes_one_small_file_with_all_that_a_reader_needs(tmp_path):
    run = finished_run(tmp_path / "run", [float(s) for s in range(60)], seed=3)
    RunFolder(run).append("eval.jsonl", {"frames": 60_000, "scores": [1.0]})
    target = add_run(run, tmp_path / "ledger")
    assert target == tmp_path / "ledger" / "pong" / "extrinsic-s3-60k-01234567.json"
    record = Record.read(target)
    assert record.score == sum(range(10, 60)) / 50
    assert (record.episodes, record.episodes_in_score) == (60, 50)
    assert (record.seed, record.frames, record.finished) == (3, 60_000, True)
    assert record.evaluations == [{"frames": 60_000, "scores": [1.0]}]
    assert record.config["n_envs"] == 8
    assert record.provenance["commit"] == "0123456789abcdef"
    assert target.stat().st_size < 10_000


def test_recording_a_run_again_replaces_its_file(tmp_path):
    run = finished_run(tmp_path / "run", [1.0])
    assert add_run(run, tmp_path / "ledger") == add_run(run, tmp_path / "ledger")
    assert len(read_records([tmp_path / "ledger"])) == 1


@pytest.mark.parametrize(("commit", "name"), [("0123456+", "0123456"), ("0123456789+", "01234567"), (None, "unknown")])
def test_the_files_name_carries_the_commit_where_there_is_one(tmp_path, commit, name):
    assert add_run(finished_run(tmp_path / "run", [1.0], commit=commit), tmp_path).name.endswith(f"-{name}.json")


def test_a_run_that_was_cut_short_is_recorded_as_unfinished(tmp_path):
    run = finished_run(tmp_path / "run", [1.0, 2.0], frames=80_000_000)
    assert not Record.read(add_run(run, tmp_path)).finished


def test_a_run_without_metrics_or_games_has_nothing_to_record(tmp_path):
    empty = create_run(tmp_path / "empty", TrainConfig(method="random"), {})
    with pytest.raises(UsageError, match=r"no metrics yet; `megareward resume .*empty` trains it"):
        add_run(empty.path, tmp_path)
    empty.append("metrics.jsonl", {"frames": 24})
    with pytest.raises(UsageError, match="not finished a single game"):
        add_run(empty.path, tmp_path)
    without = Record.of_run(empty.path)  # kept where something else is worth it, such as an audit
    assert (without.score, without.episodes, without.curve) == (None, 0, [])
    assert over_seeds([without]) == "-"


# The table -----------------------------------------------------------------------------------------------------------


def test_the_table_averages_over_seeds_and_shows_published_scores_beside(tmp_path):
    for seed, score in enumerate((10.0, 14.0)):
        add_run(finished_run(tmp_path / f"run{seed}", [score] * 4, seed=seed), tmp_path / "ledger")
    add_run(finished_run(tmp_path / "other", [1.0] * 2, game="mini-pong"), tmp_path / "ledger")
    head, mini, pong = table(read_records([tmp_path / "ledger"])).splitlines()[:3]
    assert head.split()[:7] == ["game", "method", "frames", "seeds", "score", "whole", "games"]
    assert mini.split() == ["mini-pong", "extrinsic", "2k", "1", "1"]
    assert pong.split()[:7] == ["pong", "extrinsic", "4k", "2", "12", "[10,", "14]"]
    assert pong.split()[7:] == [f"{published_score(column, 'pong'):g}" for column in COLUMNS]


def test_a_method_of_the_paper_stands_beside_the_papers_number_for_it(tmp_path):
    record = add_run(finished_run(tmp_path / "run", [1.0] * 2), tmp_path / "ledger")
    found = Record.read(record)
    rnd = replace(found, method="rnd", config=to_dict(TrainConfig("rnd", "pong", frames=found.config["frames"])))
    assert table([rnd]).splitlines()[1].split()[-1] == f"{published_score('paper/rnd', 'pong'):g}"


def test_runs_of_other_lengths_are_not_averaged_together(tmp_path):
    for n in (1, 2):
        add_run(finished_run(tmp_path / f"run{n}", [1.0] * n), tmp_path / "ledger")
    assert table(read_records([tmp_path / "ledger"])).count("\npong ") == 2


def test_runs_of_other_settings_are_no_seeds_of_each_other(tmp_path):
    for seed, show in ((0, "auto"), (1, "auto"), (2, "yes")):
        settings = {
            "seed": seed,
            "show_score": show,
            "checkpoint_minutes": 1.0 + seed,
        }  # how often it saved is no matter
        add_run(finished_run(tmp_path / f"run{seed}", [1.0], **settings), tmp_path / "ledger")
    lines = table(read_records([tmp_path / "ledger"])).splitlines()[1:3]
    assert sorted(line.split()[3] for line in lines) == ["1", "2"]


def test_whole_games_and_unfinished_runs_are_shown(tmp_path):
    run = finished_run(tmp_path / "run", [1.0, 2.0], frames=80_000_000)
    for scores in ([0.0, 0.0], [10.0, 14.0]):
        RunFolder(run).append("eval.jsonl", {"frames": 2000, "scores": scores})
    add_run(run, tmp_path / "ledger")
    line = table(read_records([tmp_path / "ledger"])).splitlines()[1]
    assert line.split()[:9] == ["pong", "extrinsic", "2k", "of", "80M", "1", "1.5", "12", "+-"]


def test_an_empty_ledger_says_how_to_fill_it(tmp_path):
    assert "`megareward results add RUN` records one" in table(read_records([tmp_path]))


# Published numbers ---------------------------------------------------------------------------------------------------


def test_every_published_column_has_a_source_and_games_by_their_canonical_names():
    for name, column in published().items():
        assert column.source, name
        assert set(column.scores) <= set(atari_games()), name
    assert set(COLUMNS) <= set(published())


def test_the_papers_own_columns_cover_its_18_games():
    columns = {name: column for name, column in published().items() if name.startswith("paper/")}
    assert {len(column.scores) for column in columns.values()} == {18}
    assert {column.frames for column in columns.values()} == {80_000_000}
    assert published_score("paper/mega", "mini-pong") is None


# The report ----------------------------------------------------------------------------------------------------------


def test_a_run_is_described_beside_random_play(tmp_path):
    run = finished_run(tmp_path / "run", [20.0] * 3)
    text = describe_run(run)
    assert "pong, extrinsic: score 20 over the last 3 games" in text
    assert f"random play: {published_score('random', 'pong'):.4g}" in text
    assert str(run) in text
    save_random_score(run, -3.5, games=50)
    assert "random play: -3.5" in describe_run(run)


def test_a_run_without_games_is_described_too(tmp_path):
    empty = create_run(tmp_path / "empty", TrainConfig(method="random"), {})
    assert "no game finished yet" in describe_run(empty.path)


def test_the_curve_is_drawn(tmp_path):
    draw_curve(finished_run(tmp_path / "run", [1.0, 2.0, 3.0]), tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
