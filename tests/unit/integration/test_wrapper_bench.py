"""`megareward bench wrapper` measures and writes down."""

import json

from megareward.cli import main


def test_the_benchmark_compares_the_bare_game_with_every_method_frozen_and_learning(tmp_path, capsys):
    target = tmp_path / "wrapper.json"
    words = ["bench", "wrapper", "--n-envs", "2", "--methods", "count", "--seconds", "0.01", "--device", "cpu"]
    assert main([*words, "--json", str(target)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 3
    assert "count, learning" in shown[2]
    bare, *others = json.loads(target.read_text())
    assert bare["method"] == "bare"
    assert bare["added_us"] == 0
    assert [record["learns"] for record in others] == [False, True]
    assert all(record["steps_per_s"] > 0 for record in others)


def test_an_unknown_method_is_named(capsys):
    assert main(["bench", "wrapper", "--methods", "cuont"]) == 2
    assert "Did you mean count" in capsys.readouterr().err
