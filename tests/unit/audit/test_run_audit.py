"""`megareward audit` from a run's folder to its table."""

import json

import pytest
import torch

from megareward.audit.learnt import learnt_maps
from megareward.audit.run_audit import save_audit
from megareward.audit.table import share
from megareward.audit.truth import AuditedEpisode, Truth, load_truth
from megareward.cli import main
from megareward.control.config import AdmConfig, ControlConfig, LatentConfig, RtmConfig
from megareward.control.models import ControlModels
from megareward.observers.tracker import ControlTracker

TINY = ["--frames", "12", "--lags", "6", "--episodes", "3", "--device", "cpu"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A tiny run of mega-reward, one with an oracle and one without control models."""
    folder = tmp_path_factory.mktemp("runs")
    how = ["--preset", "debug", "--game", "mini-demon", "--quiet", "--no-tensorboard", "--device", "cpu", "--out"]
    assert main(["train", "mega", *how, str(folder / "mega")]) == 0
    assert main(["train", "mega", *how, str(folder / "oracle"), "--control.oracle.lags", "5"]) == 0
    assert main(["train", "extrinsic", *how, str(folder / "extrinsic")]) == 0
    return folder


@pytest.mark.parametrize("policy", ["random", "trained"])
def test_an_audit_prints_a_table_and_leaves_scores_and_truth(runs, policy, capsys):
    assert main(["audit", str(runs / "mega"), *TINY, "--policy", policy]) == 0
    printed = capsys.readouterr().out
    assert f"mini-demon, {policy} play" in printed
    assert "3 of 36 steps in all" in printed
    assert "direct control, AUROC" in printed
    assert "movers at lag 2, AUROC" in printed
    record = json.loads((runs / "mega" / f"audit-{policy}.json").read_text())
    assert record["trained_frames"] == 96
    assert len(record["scores"]["lag_auroc"]) == 6
    assert set(record["controls"]) == {"untrained", "uniform", "change", "seen"}
    assert record["controls"]["untrained"]["direct_auroc"]["mean"] == pytest.approx(0.5)
    assert len(record["controls"]["seen"]["movers_lag_auroc"]) == 6
    assert f"{share(record, 'direct_auroc'):.0%} from 0.500 to " in printed
    assert 0 <= record["scores"]["direct_auroc"]["low"] <= record["scores"]["direct_auroc"]["mean"] <= 1
    truth = load_truth(runs / "mega" / record["truth"])
    assert [tuple(e.changed.shape) for e in truth.episodes] == [(13, 6, 16)] * 3
    assert truth.action_names == ("noop", "left", "right", "fire")


def test_a_second_audit_reads_the_truth_and_finds_the_same(runs, monkeypatch, capsys):
    assert main(["audit", str(runs / "mega"), *TINY]) == 0
    table = capsys.readouterr().out
    monkeypatch.setattr("megareward.audit.record._mini_truth", None)  # to look for it again would fail
    assert main(["audit", str(runs / "mega"), *TINY]) == 0
    assert capsys.readouterr().out == table


def test_several_runs_stand_side_by_side_and_share_the_truth(runs, tmp_path, capsys):
    both = [str(runs / "mega"), str(runs / "mega")]
    assert main(["audit", *both, *TINY, "--json", str(tmp_path / "all.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["run", "mega", "mega"]
    records = json.loads((tmp_path / "all.json").read_text())
    assert len(records) == 2
    assert records[0]["scores"] == records[1]["scores"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["oracle"], "was trained with an oracle: its maps are the truth"),
        (["extrinsic"], "has no control models to audit"),
        (["nowhere"], "does not exist"),
        (["mega", "--game", "mini-pong", *TINY], "do not fit mini-pong with its 3 actions"),
        (["mega", "--episodes", "0"], "--episodes is 0"),
    ],
)
def test_what_cannot_be_audited_is_refused_by_a_sentence(runs, words, sentence, capsys):
    assert main(["audit", str(runs / words[0]), *words[1:]]) == 2
    assert sentence in capsys.readouterr().err


def test_what_was_found_on_another_game_does_not_take_the_place_of_the_runs_own_audit(tmp_path):
    own = {"game": "mini-pong", "policy": "random", "on_another_game": False}
    assert save_audit(own, tmp_path).name == "audit-random.json"
    assert save_audit({**own, "on_another_game": True}, tmp_path).name == "audited-on-mini-pong-random.json"


def test_an_oracle_is_named_wherever_its_scores_are_shown(runs, capsys):
    from megareward.runs.folder import RunFolder
    from megareward.runs.logs import shown_method

    assert shown_method(RunFolder.open(runs / "oracle").record()["config"]) == "mega-ORACLE"
    assert shown_method(RunFolder.open(runs / "mega").record()["config"]) == "mega"


def test_learnt_maps_are_what_the_tracker_says_of_each_episode_alone():
    config = ControlConfig(
        H=2,
        W=4,
        adm=AdmConfig(channels=2, features=8, hidden=8),
        rtm=RtmConfig(channels=2, features=8, gamma_features=8, stack=3, anchor=0.0),
        latent=LatentConfig(flash=1.0),  # the frames are noise
    )
    models = ControlModels(config, (32, 24), n_actions=3, seed=1)
    generator = torch.Generator().manual_seed(0)
    episodes = []
    for T in (4, 7):
        frames = torch.randint(0, 256, (T + 1, 32, 24), dtype=torch.uint8, generator=generator)
        actions = torch.randint(0, 3, (T,), generator=generator)
        episodes.append(AuditedEpisode(frames, actions, torch.zeros(T + 1, 5, 8, dtype=torch.uint8)))
    found = learnt_maps(models, Truth({"grid": [2, 4], "lags": 5}, ("a", "b", "c"), episodes))
    for episode, maps in zip(episodes, found, strict=True):
        tracker = ControlTracker(models, 1)
        for t in range(len(episode.frames)):
            stack = torch.stack([episode.frames[max(t - back, 0)] for back in (2, 1, 0)])[None]
            action = episode.actions[max(t - 1, 0)][None]
            control = tracker.step(stack, action, torch.tensor([t == 0]), with_relation=True)
            for name in ("direct", "relation", "g", "mega_reward"):
                assert torch.allclose(getattr(maps, name)[t], getattr(control, name)[0], atol=1e-5), (t, name)
        assert len(maps.g) == len(episode.frames)
