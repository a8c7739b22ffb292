"""A checkpoint whose hashes are right, but whose content is not this run's, is passed over like a damaged one: no
moment of the wrong size reaches Adam's fused kernel, which would read beyond it. And settings that were changed in
config.json after training began are named."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import safetensors.torch
import torch

from megareward.cli import main
from megareward.errors import RunError, UsageError
from megareward.runs.checkpoint import DamagedError, list_checkpoints, read_checkpoint
from megareward.training.loop import Trainer
from megareward.training.run import resume
from megareward.training.saving import restore
from tests.seams.small_runs import QUIET, Outcome, assert_same, run, small


def write(checkpoint: Path, name: str, content: bytes) -> None:
    """Replace a file of a checkpoint, and its hash."""
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    (checkpoint / name).write_bytes(content)
    (checkpoint / "manifest.json").write_text(json.dumps(manifest | {name: hashlib.sha256(content).hexdigest()}))


def forge(checkpoint: Path, name: str, how) -> None:
    tensors = safetensors.torch.load((checkpoint / "tensors.safetensors").read_bytes())
    tensors[name] = how(tensors[name]).contiguous()
    write(checkpoint, "tensors.safetensors", safetensors.torch.save(tensors))


HOW = {
    "shorter": lambda x: x.flatten()[: x.numel() // 2].clone(),
    "longer": lambda x: torch.cat([x.flatten(), x.flatten()]),
    "of another type": lambda x: x.to(torch.float16 if x.dtype == torch.float32 else torch.int32),
    "not finite": lambda x: torch.full_like(x, torch.nan),
    "negative": lambda x: torch.full_like(x, -1),
}
FORGED = [
    *(("observer.control.optimiser.2.exp_avg_sq", how) for how in HOW),
    *(("optimiser.3.exp_avg", how) for how in list(HOW)[:4]),  # a mean may be negative
    *((name, how) for name in ("policy.trunk.0.weight", "scale.0.filtered") for how in list(HOW)[:4]),
    *(
        (name, how)
        for name in ("rollout.frames", "rng.state", "env.steps", "running.control.g")
        for how in list(HOW)[:3]
    ),
    *(("observer.control.replay.0.actions", how) for how in ("shorter", "of another type", "negative")),
    ("observer.control.draws", "shorter"),
    ("observer.control.background.sample", "longer"),
    ("optimiser.3.step", "negative"),
]


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    run(small("mega"), path)
    return path


@pytest.fixture(scope="module")
def finished(original) -> Outcome:
    return Outcome.of(original)


@pytest.fixture
def path(tmp_path, original) -> Path:
    return shutil.copytree(original, tmp_path / "run")


def test_the_newest_is_passed_over_whatever_tensor_was_forged_and_however(path, finished, capsys):
    newest = list_checkpoints(path / "checkpoints")[-1]
    whole = {name: (newest / name).read_bytes() for name in ("tensors.safetensors", "manifest.json")}
    for name, how in FORGED:
        for file, content in whole.items():
            (newest / file).write_bytes(content)
        forge(newest, name, HOW[how])
        trainer = Trainer(small("mega"), torch.device("cpu"))
        with pytest.raises(DamagedError, match="does not fit this run"):
            restore(trainer, newest, *read_checkpoint(newest))
    resume(path, **QUIET)
    assert f"Checkpoint {newest.name} is damaged (it does not fit this run: " in capsys.readouterr().err
    assert_same(finished, Outcome.of(path))


@pytest.mark.parametrize(
    "change",
    [
        {"frames": "144"},
        {"frames": 143},
        {"iteration": -1},
        {"score_book": None},
        {"score_book": {"running": [], "steps": [], "recent": [], "episodes": 0}},
        {"log_sizes": [1]},
        {"log_sizes": {"metrics.jsonl": "x"}},
    ],
)
def test_forged_counters_are_damage(path, finished, change, capsys):
    newest = list_checkpoints(path / "checkpoints")[-1]
    state = json.loads((newest / "state.json").read_text())
    write(newest, "state.json", json.dumps(state | change).encode())
    resume(path, **QUIET)
    assert "is damaged (state.json is not what was written)" in capsys.readouterr().err
    assert_same(finished, Outcome.of(path))


def test_if_none_fits_nothing_is_changed(path):
    for checkpoint in list_checkpoints(path / "checkpoints"):
        forge(checkpoint, "policy.action_head.weight", HOW["longer"])
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    with pytest.raises(RunError, match=r"All 2 checkpoints in .* are damaged"):
        resume(path, **QUIET)
    assert before == {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    "name", ["policy.trunk.0.weight", "policy.value_head.weight", "observer.control.normaliser.std"]
)
@pytest.mark.parametrize("how", ["shorter", "not finite"])
def test_playing_with_a_forged_checkpoint_is_one_sentence(path, name, how, capsys):
    for checkpoint in list_checkpoints(path / "checkpoints"):
        forge(checkpoint, name, HOW[how])
    for words in (
        ["eval", "--episodes", "1"],
        ["watch", "--steps", "10"],
        ["audit", "--episodes", "1", "--frames", "4"],
    ):
        status = main([words[0], str(path), *words[1:]])
        assert status in ((1, 2) if words[0] != "audit" or "policy" not in name or how == "not finite" else (0,)), words
        assert "internal error" not in capsys.readouterr().err


# Settings ------------------------------------------------------------------------------------------------------------


def edit(path: Path, change) -> None:
    record = json.loads((path / "config.json").read_text())
    change(record["config"])
    (path / "config.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda c: c.update(seed=6), "says seed 6, but the checkpoint was made with 5"),
        (lambda c: c.update(rollout_steps=24), "says rollout_steps 24, but the checkpoint was made with 12"),
        (lambda c: c.update(n_envs=6), "says n_envs 6, but the checkpoint was made with 3"),
        (lambda c: c.update(n_envs=10**9), "--n-envs 1000000000 and --rollout-steps 12 make 12000000000 samples"),
        (lambda c: c["control"]["latent"].update(hold=True), "says control.latent.hold True, but"),
        (lambda c: c["env"].update(size=64), "says env.size 64, but"),
        (lambda c: c.update(seed="5"), "has '5' for 'seed' of TrainConfig, which is no int; put it right"),
        (lambda c: c.update(episodic=1), "has 1 for 'episodic' of TrainConfig, which is no bool"),
        (lambda c: c["ppo"].update(clip=None), "has None for 'clip' of PPOConfig, which is no float"),
        (lambda c: c["ppo"].update(precision="float8"), "has 'float8' for 'precision' of PPOConfig"),
        (lambda c: c.update(ppo=3), "has 3 in place of the settings of PPOConfig"),
        (lambda c: c.update(ppo=[]), "has [] in place of the settings of PPOConfig"),
        (lambda c: c["control"].update(betas=[0.5]), "for 'betas' of ControlConfig"),
        (lambda c: c.update(game=7), "There is no game '7'"),
    ],
)
def test_a_changed_setting_is_refused_by_its_name(path, change, sentence):
    before = (path / "metrics.jsonl").read_bytes()
    edit(path, change)
    with pytest.raises(UsageError) as refusal:
        resume(path, **QUIET)
    assert sentence in str(refusal.value)
    assert (path / "metrics.jsonl").read_bytes() == before


def test_settings_that_change_no_number_may_change_and_a_new_length_is_said_aloud(path, capsys):
    edit(path, lambda c: c.update(checkpoint_minutes=7.0, frames=5 * 36))
    resume(path, **QUIET)
    assert "The run is now to have 180 frames instead of 144" in capsys.readouterr().err
    assert Outcome.of(path).metrics[-1]["frames"] == 180


def test_who_plays_with_other_settings_than_it_was_trained_with_is_told(path, capsys):
    edit(path, lambda c: c["env"].update(max_steps=9))
    assert main(["eval", str(path), "--episodes", "1"]) == 0
    assert "says env.max_steps 9, but the checkpoint was made with 17." in capsys.readouterr().err
