"""`--from RUN`: trunk and action head of another run, everything else fresh; the new run needs the old one no more."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch

from megareward.cli import main
from megareward.cli.train import parse_args
from megareward.errors import RunError, UsageError
from megareward.runs.checkpoint import load_newest
from megareward.runs.folder import RunFolder
from megareward.state import part
from megareward.training.config import create_run
from megareward.training.loop import Trainer
from megareward.training.run import resume, start
from megareward.training.start_from import START, begin_from
from tests.seams.small_runs import (
    QUIET,
    TINY_CONTROL,
    Outcome,
    PowerCutError,
    Watched,
    assert_same,
    env_of,
    run,
    small,
    stop_at,
)

CPU = torch.device("cpu")


def policy_of(path: Path) -> dict[str, torch.Tensor]:
    found = load_newest(path / "checkpoints", pytest.fail)
    assert found is not None
    return part(found[1], "policy")


@pytest.fixture
def pretrained(tmp_path) -> Path:
    run(small("rnd", g_channel="no"), tmp_path / "pretrained")
    return tmp_path / "pretrained"


def test_the_first_policy_is_the_other_runs_but_for_the_value_head(pretrained, tmp_path, monkeypatch):
    weights = []
    iterate = Trainer.iterate

    def note(self: Trainer):
        if not weights:
            weights.append({name: w.clone() for name, w in self.agent.policy.state_dict().items()})
            assert not self.agent.ppo.optimiser.state  # fresh
        return iterate(self)

    monkeypatch.setattr(Trainer, "iterate", note)
    config = small("extrinsic", g_channel="no", start_from=str(pretrained))
    start(config, tmp_path / "new", **QUIET)
    theirs, fresh = policy_of(pretrained), Trainer(small("extrinsic", g_channel="no"), CPU).agent.policy.state_dict()
    for name, weight in weights[0].items():
        carried = name.split(".")[0] in ("trunk", "action_head")
        assert torch.equal(weight, (theirs if carried else fresh)[name]), name
    assert not torch.equal(theirs["trunk.0.weight"], fresh["trunk.0.weight"])


def test_the_new_run_says_where_it_comes_from_and_needs_the_old_one_no_more(pretrained, tmp_path):
    config = small("extrinsic", g_channel="no", start_from=str(pretrained))
    whole, _ = run(config, tmp_path / "whole")
    stopped = tmp_path / "stopped"
    with pytest.raises(PowerCutError):  # before the first checkpoint
        start(config, stopped, env=Watched(env_of(config), stop_at(5, "power cut")), **QUIET)
    about = json.loads((stopped / "config.json").read_text())["start"]
    assert (about["run"], about["method"], about["frames"]) == (str(pretrained), "rnd", 144)
    shutil.rmtree(pretrained)
    resume(stopped, **QUIET)
    assert_same(whole, Outcome.of(stopped))


def test_weights_to_start_from_that_are_not_those_that_were_kept_are_refused(pretrained, tmp_path):
    config = small("extrinsic", g_channel="no", start_from=str(pretrained))
    path = start(config, tmp_path / "run", minutes=1e-9, **QUIET).path
    shutil.rmtree(path / "checkpoints")
    for log in ("metrics.jsonl", "scores.jsonl"):
        (path / log).unlink()  # as if it had not begun
    data = bytearray((path / START).read_bytes())
    data[-1] ^= 1
    (path / START).write_bytes(data)
    with pytest.raises(RunError, match="its hash is wrong; start a new run"):
        resume(path, **QUIET)


def test_it_makes_a_difference(pretrained, tmp_path):
    config = small("extrinsic", g_channel="no")
    one, other = (
        run(c, tmp_path / name)[0]
        for c, name in ((config, "scratch"), (small("extrinsic", g_channel="no", start_from=str(pretrained)), "from"))
    )
    assert not torch.equal(one.weights["policy.trunk.0.weight"], other.weights["policy.trunk.0.weight"])


def test_what_does_not_fit_is_refused_before_there_is_a_folder(pretrained, tmp_path):
    sees_g = small("rnd", g_channel="yes", start_from=str(pretrained))
    with pytest.raises(UsageError, match=r"trunk\.0\.weight is .* there and .* here"):
        start(sees_g, tmp_path / "new", **QUIET)
    run(small("random"), tmp_path / "random")
    with pytest.raises(UsageError, match="'random', which has neither a policy nor an observer that 'extrinsic' could"):
        start(small("extrinsic", g_channel="no", start_from=str(tmp_path / "random")), tmp_path / "new", **QUIET)
    with pytest.raises(UsageError, match=r"'rnd', which has neither .* that 'random' could start from"):
        start(small("random", start_from=str(pretrained)), tmp_path / "new", **QUIET)
    create_run(tmp_path / "untrained", small("rnd"), {})
    with pytest.raises(UsageError, match="no checkpoint yet"):
        start(small("extrinsic", start_from=str(tmp_path / "untrained")), tmp_path / "new", **QUIET)
    with pytest.raises(UsageError, match="does not exist"):
        start(small("extrinsic", start_from=str(tmp_path / "nowhere")), tmp_path / "new", **QUIET)
    assert not (tmp_path / "new").exists()


def test_the_command_line_knows_it(tmp_path):
    words = "--preset debug --quiet --no-tensorboard --device cpu --out"
    assert main(["train", "rnd", *words.split(), str(tmp_path / "a")]) == 0
    assert main(["train", "extrinsic", "--from", str(tmp_path / "a"), *words.split(), str(tmp_path / "b")]) == 0
    assert (tmp_path / "b" / START).exists()
    assert json.loads((tmp_path / "b" / "config.json").read_text())["config"]["start_from"] == str(tmp_path / "a")


@pytest.fixture
def sees_g(tmp_path) -> Path:
    run(small("rnd", g_channel="yes"), tmp_path / "sees-g")
    return tmp_path / "sees-g"


def test_an_observer_that_both_have_goes_on_with_what_it_has_learnt(sees_g, tmp_path):
    config = small("extrinsic", g_channel="yes", start_from=str(sees_g))
    path = start(config, tmp_path / "new", minutes=1e-9, **QUIET).path
    found = load_newest(sees_g / "checkpoints", pytest.fail)
    theirs = part(found[1], "observer.control")
    kept = part(safetensors.torch.load_file(path / START), "observer.control")
    assert all(torch.equal(kept[name], tensor) for name, tensor in theirs.items())
    trainer = Trainer(config, CPU)
    begin_from(trainer, RunFolder.open(path))
    mine = trainer.observers["control"].state_dict()
    weights = [name for name in theirs if name.startswith("modules.")]
    assert weights
    assert all(torch.equal(mine[name], theirs[name]) for name in weights)
    whole, _ = run(config, tmp_path / "whole")
    resume(path, **QUIET)
    assert_same(whole, Outcome.of(path))


def test_an_observer_of_other_settings_is_refused_in_one_sentence(sees_g, tmp_path):
    control = replace(TINY_CONTROL, adm=replace(TINY_CONTROL.adm, hidden=16))
    config = small("extrinsic", g_channel="yes", control=control, start_from=str(sees_g))
    with pytest.raises(
        UsageError, match=r"What the observer 'control' has learnt in .* does not fit .*: modules\.adm\."
    ):
        start(config, tmp_path / "new", **QUIET)
    assert not (tmp_path / "new").exists()


def test_weights_that_are_gone_are_missed(pretrained, tmp_path):
    config = small("extrinsic", g_channel="no", start_from=str(pretrained))
    create_run(tmp_path / "new", config, {})
    with pytest.raises(RunError, match="is missing, which the run was to start from"):
        resume(tmp_path / "new", **QUIET)


def test_it_is_said_what_is_carried_over_and_what_is_not(pretrained, sees_g, tmp_path, capsys):
    start(small("extrinsic", g_channel="no", start_from=str(pretrained)), tmp_path / "a", tensorboard=False)
    said = capsys.readouterr().err
    assert f"Starting from {pretrained} (rnd on mini-pong, 144 frames)." in said
    assert "Carried over: the policy's trunk, its action head. Fresh: value heads, optimiser, schedules" in said
    start(small("mega", g_channel="yes", start_from=str(sees_g)), tmp_path / "b", tensorboard=False)
    assert "its action head, what the observer 'control' has learnt. Fresh: value heads" in capsys.readouterr().err
    start(small("mega", g_channel="no", start_from=str(pretrained)), tmp_path / "c", tensorboard=False)
    assert "Fresh: value heads, the observer 'control'" in capsys.readouterr().err


def test_pretraining_hides_the_score_and_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["--preset", "debug", "--no-tensorboard", "--device", "cpu", "--game", "mini-demon"]
    assert main(["pretrain", "mega", *words]) == 0
    assert "megareward train extrinsic --game mini-demon --from runs/mini-demon-mega-pretrained-s0" in (
        capsys.readouterr().out
    )
    record = json.loads(Path("runs/mini-demon-mega-pretrained-s0/config.json").read_text())
    assert record["config"]["method"] == "mega"
    for wrong, remedy in {
        ("extrinsic",): "would see it; choose one of mega,",
        ("rnd", "--with-score"): "leave --with-score out",
        ("rnd", "--show-score", "yes"): "leave --show-score yes out",
        (): "Which method",
    }.items():
        assert main(["pretrain", *wrong, *(words if wrong else [])]) == 2
        assert remedy in capsys.readouterr().err


def test_budgets_can_be_counted_in_steps():
    words = ["rnd", "--game", "pong", "--frames", "10M"]
    assert parse_args(words).config().frames == 10_000_000
    assert parse_args([*words, "--count", "steps"]).config().frames == 40_000_000
