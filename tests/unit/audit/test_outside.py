"""Anybody's maps on the same truth: `megareward audit --maps`, and the truth that everybody can make."""

import json

import numpy as np
import pytest
import torch

from megareward.audit import benchmark
from megareward.audit.outside import read_maps
from megareward.audit.record import Plan
from megareward.audit.scores import score
from megareward.audit.truth import AuditedEpisode, Truth, load_truth
from megareward.cli import main
from megareward.envs.mini import MINI_GAMES
from megareward.errors import UsageError
from megareward.experiments.plans import BENCHMARK_GAMES

H, W, L = 2, 3, 4
SHORT = ["--game", "mini-demon", "--frames", "50", "--episodes", "2", "--lags", "6", "--device", "cpu"]


@pytest.fixture(scope="module")
def truth():
    generator = torch.Generator().manual_seed(0)
    episodes = []
    for T in (4, 6):
        frames = torch.randint(0, 256, (T + 1, 8, 9), dtype=torch.uint8, generator=generator)
        changed = torch.randint(0, 2, (T + 1, L, H * W), dtype=torch.uint8, generator=generator)
        episodes.append(AuditedEpisode(frames, torch.zeros(T, dtype=torch.int64), changed))
    return Truth({"game": "mini-demon", "grid": [H, W], "lags": L}, ("a", "b"), episodes)


def test_maps_that_know_nothing_of_actions_are_scored_by_the_documented_command(tmp_path, capsys):
    maps = [f"examples.control_maps:{name}" for name in ("frame_difference", "motion_mask")]
    where = ["--cache", str(tmp_path), "--json", str(tmp_path / "all.json")]
    assert main(["audit", "--maps", *maps, *SHORT, *where]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0].split() == ["run", *maps]
    assert "not the benchmark's episodes" in printed.err
    difference, mask = json.loads((tmp_path / "all.json").read_text())
    for name in ("direct_auroc", "g_auroc", "movers_auroc"):  # the control row is this very map
        assert difference["scores"][name]["mean"] == pytest.approx(difference["controls"]["change"][name]["mean"])
    assert mask["scores"]["direct_auroc"]["mean"] > 0.6  # what is controlled moves
    assert mask["scores"]["movers_auroc"]["mean"] == 0.5  # all that moves is alike to it
    assert "relation_auroc" not in mask["scores"]
    assert mask["controls"]["untrained"]["direct_auroc"]["mean"] == pytest.approx(0.5)

    truth = load_truth(tmp_path / next(tmp_path.glob("*.safetensors.xz")).name)
    cells = {f"direct.{i}": episode.direct.numpy() for i, episode in enumerate(truth.episodes)}
    np.savez(tmp_path / "true.npz", **cells)
    scores = score(truth, read_maps(str(tmp_path / "true.npz"), truth), 0.99)
    assert scores["direct_auroc"].mean == 1
    assert set(scores) == {"direct_auroc", "shown_direct_auroc"}


def test_cells_rows_and_pixels_are_the_same_map(truth, tmp_path):
    values = [np.random.default_rng(i).random((len(e.frames), H, W)) for i, e in enumerate(truth.episodes)]
    forms = {
        "cells": values,
        "rows": [v.reshape(len(v), H * W) for v in values],
        "pixels": [v.repeat(4, 1).repeat(3, 2) for v in values],
    }
    for name, arrays in forms.items():
        np.savez(tmp_path / name, **{f"map.{i}": array for i, array in enumerate(arrays)})
        for maps, expected in zip(read_maps(str(tmp_path / f"{name}.npz"), truth), values, strict=True):
            wanted = torch.tensor(expected, dtype=torch.float32).flatten(1)
            for own in (maps.direct, maps.g, maps.handed_on):
                assert torch.allclose(own, wanted)
            assert maps.influence is None


def test_with_a_relation_what_is_handed_on_follows_it(truth, tmp_path):
    arrays = {}
    for i, episode in enumerate(truth.episodes):
        n = len(episode.frames)
        shift = np.broadcast_to(np.roll(np.eye(H * W), 1, 1), (n, H * W, H * W))  # every cell follows from the next
        arrays |= {f"g.{i}": np.arange(n * H * W).reshape(n, H, W), f"relation.{i}": shift}
    np.savez(tmp_path / "maps", **arrays)
    maps = read_maps(str(tmp_path / "maps.npz"), truth)[0]
    assert maps.handed_on[1].tolist() == [1, 2, 3, 4, 5, 0]
    assert maps.direct is None


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"map.0": np.zeros((5, 2, 2)), "map.1": np.zeros((7, 2, 3))}, r"has the shape \(5, 2, 2\); it must be"),
        ({"map.0": np.zeros((5, 2, 3))}, "has no map of episode 1 of 2"),
        ({"maps.0": np.zeros((5, 2, 3)), "maps.1": np.zeros((7, 2, 3))}, "a map called 'maps'; names are map, direct"),
        ({"map.0": np.full((5, 2, 3), np.nan), "map.1": np.zeros((7, 2, 3))}, "not finite"),
        ({"relation.0": np.zeros((5, 2, 3)), "relation.1": np.zeros((7, 6, 6))}, r"it must be \(5, 6, 6\)"),
    ],
)
def test_maps_that_do_not_fit_are_refused_by_a_sentence(truth, tmp_path, arrays, sentence):
    np.savez(tmp_path / "maps", **arrays)
    with pytest.raises(UsageError, match=sentence):
        read_maps(str(tmp_path / "maps.npz"), truth)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--maps", "nowhere.npz", *SHORT], "nowhere.npz does not exist"),
        (["--maps", "examples.control_maps:nothing", *SHORT], "has no attribute 'nothing'"),
        (["--maps", "no_module:function", *SHORT], "No module named 'no_module'"),
        (["--maps", "something", *SHORT], "use FILE.npz or module:function"),
        (["--maps", "a.npz"], "but of which game?"),
        (["--maps", "a.npz", "--game", "mini-pong", "--policy", "trained"], "random play"),
    ],
)
def test_what_cannot_be_scored_is_refused_by_a_sentence(tmp_path, words, sentence, capsys):
    assert main(["audit", *words, "--cache", str(tmp_path)]) == 2
    assert sentence in capsys.readouterr().err


def test_the_truth_of_the_benchmark_comes_out_the_same_everywhere(tmp_path, capsys):
    """mini-breakout's is made anew and has the checksum that is kept in the repository."""
    assert main(["truth", "mini-breakout", "--cache", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert benchmark.recorded()["mini-breakout"][:16] in printed
    assert " recorded " in printed


@pytest.mark.parametrize("game", [*MINI_GAMES, "breakout"])
def test_a_small_set_tells_in_seconds_whether_this_machine_makes_the_recorded_truth(game, tmp_path, capsys):
    assert main(["truth", game, "--small", "--cache", str(tmp_path), "--processes", "1"]) == 0
    printed = capsys.readouterr().out
    assert benchmark.recorded()[f"{game} small"][:16] in printed
    assert " recorded " in printed


def test_a_small_set_is_recorded_of_every_game_of_the_benchmark():
    small = {name.removesuffix(" small") for name in benchmark.recorded() if name.endswith(" small")}
    assert small == set(BENCHMARK_GAMES)


def test_another_truth_is_noticed_and_a_new_one_is_recorded_on_request(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(benchmark, "CHECKSUMS", tmp_path / "checksums.json")
    benchmark.CHECKSUMS.write_text("{}")
    monkeypatch.setattr(benchmark, "Plan", lambda: Plan(episodes=2, frames=5, lags=3))
    words = ["truth", "mini-pong", "--cache", str(tmp_path)]
    assert main(words) == 0
    assert "not recorded yet" in capsys.readouterr().out
    assert benchmark.recorded() == {}
    assert main([*words, "--record"]) == 0
    assert "recorded now" in capsys.readouterr().out
    assert set(benchmark.recorded()) == {"mini-pong"}
    benchmark.CHECKSUMS.write_text(json.dumps({"mini-pong": "0" * 64}))
    assert main(words) == 1
    assert "recorded is 0000000000000000" in capsys.readouterr().err


def test_a_checksum_is_of_what_is_in_the_truth(truth):
    other = [AuditedEpisode(e.frames, e.actions, e.changed.clone()) for e in truth.episodes]
    assert benchmark.checksum(Truth(truth.about, truth.action_names, other)) == benchmark.checksum(truth)
    other[1].changed[3, 2, 1] += 1
    assert benchmark.checksum(Truth(truth.about, truth.action_names, other)) != benchmark.checksum(truth)
