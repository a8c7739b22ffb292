"""A run that is carried elsewhere in small files, and goes on there."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from megareward.cli import main
from megareward.runs.checkpoint import list_checkpoints, read_checkpoint
from megareward.runs.folder import PACKED
from megareward.runs.narrow import in_files, narrowed, widened
from megareward.runs.record import Record
from megareward.training.config import TrainConfig
from megareward.training.export import export_run
from megareward.training.presets import with_preset
from megareward.training.run import start
from megareward.viewer.recording import record_run


@pytest.fixture
def run(tmp_path):
    config = with_preset(TrainConfig("mega", "mini-breakout", frames=480, seed=3, device="cpu"), "debug")
    return start(replace(config, frames=480), tmp_path / "run", quiet=True, tensorboard=False).path


def newest(run):
    return read_checkpoint(list_checkpoints(run / "checkpoints")[-1])


def longer(run, frames):
    record = json.loads((run / "config.json").read_text())
    record["config"]["frames"] = frames
    (run / "config.json").write_text(json.dumps(record))


def test_a_small_copy_goes_on_where_the_run_was(run, tmp_path, capsys):
    small = tmp_path / "elsewhere" / "small"
    assert main(["export", str(run), "--small", "--out", str(small)]) == 0
    out = capsys.readouterr().out
    assert "Lost: games under way" in out
    before, after = newest(run), newest(small)
    assert after[1]["frames"] == before[1]["frames"] == 480
    assert not [name for name in after[0] if name.startswith(("rollout.", "env.", "observer.control.replay."))]
    for name, tensor in after[0].items():
        close = 0.01 if "optimiser" in name else 0.001
        assert tensor.dtype == before[0][name].dtype
        torch.testing.assert_close(tensor, before[0][name], rtol=close, atol=1e-6, msg=name)
    longer(small, 960)
    assert main(["resume", str(small), "--no-tensorboard", "--quiet"]) == 0
    assert newest(small)[1]["frames"] >= 960
    assert "kept" not in newest(small)[1]  # whole again
    assert Record.of_run(small).finished
    assert Record.of_run(small).episodes > Record.of_run(run).episodes - 1  # the log came along


@pytest.mark.parametrize("ending", PACKED)
def test_one_file_unpacks_to_the_same_copy(run, tmp_path, capsys, ending):
    plain, packed = tmp_path / "plain", tmp_path / "carried" / f"copy.1{ending}"
    export_run(run, plain, "policy")
    assert main(["export", str(run), "--policy-only", "--out", str(packed)]) == 0
    told = capsys.readouterr().out
    assert f"Wrote {packed}: " in told
    assert "MB in one file." in told
    assert list(packed.parent.iterdir()) == [packed]
    shutil.unpack_archive(packed, tmp_path / "there")
    [there] = (tmp_path / "there").iterdir()
    assert there.name == "copy.1"
    found, wanted = contents(there), contents(plain)
    assert found.keys() == wanted.keys()
    dated = ("state.json", "manifest.json")  # say when the copy was made
    assert all(data == wanted[name] for name, data in found.items() if not name.endswith(dated))
    assert main(["eval", str(there), "--episodes", "1"]) == 0
    before = packed.read_bytes()
    assert main(["export", str(run), "--policy-only", "--out", str(packed)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert packed.read_bytes() == before
    assert main(["eval", str(packed), "--episodes", "1"]) == 2
    how = "unzip" if ending == ".zip" else "tar xf"
    assert f"{packed} is packed; unpack it (`{how} {packed}`)" in capsys.readouterr().err


def test_a_run_that_cannot_be_packed_leaves_nothing_behind(run, tmp_path, capsys):
    shutil.rmtree(run / "checkpoints")
    (tmp_path / "carried").mkdir()
    assert main(["export", str(run), "--small", "--out", str(tmp_path / "carried" / "copy.tar")]) == 2
    assert "has no checkpoint yet" in capsys.readouterr().err
    assert not list((tmp_path / "carried").iterdir())


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_policy_plays_and_is_not_resumed(run, tmp_path, capsys):
    done = export_run(run, tmp_path / "policy", "policy")
    assert {name.split(".")[0] for name in newest(done.path)[0]} == {"policy"}
    assert sum(done.files.values()) < sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    assert main(["eval", str(done.path), "--episodes", "2"]) == 0
    assert record_run(done.path, 8, device=torch.device("cpu")).learnt is None  # it can be watched, without maps
    assert main(["audit", str(done.path), "--episodes", "1", "--frames", "8"]) == 2
    assert "holds no control models" in capsys.readouterr().err
    assert main(["export", str(done.path), "--small", "--out", str(tmp_path / "again")]) == 2
    assert "export the run that it is a copy of" in capsys.readouterr().err
    longer(done.path, 960)
    assert main(["resume", str(done.path), "--no-tensorboard"]) == 2
    assert "cannot be resumed" in capsys.readouterr().err


def test_what_is_to_be_watched_plays_draws_its_maps_and_says_where_it_comes_from(run, tmp_path, capsys):
    shown = tmp_path / "shown"
    assert main(["eval", str(run), "--episodes", "2"]) == 0
    [evaluation] = Record.of_run(run).evaluations
    assert main(["export", str(run), "--to-watch", "--out", str(shown)]) == 0
    tensors, state = newest(shown)
    assert {name.split(".")[0] for name in tensors} == {"policy", "observer"}
    assert not [name for name in tensors if "optimiser" in name or "replay" in name]
    assert "score_book" not in state
    assert sorted(path.name for path in shown.iterdir()) == ["README.md", "checkpoints", "config.json"]
    text, commit = (
        (shown / "README.md").read_text(),
        json.loads((run / "config.json").read_text())["provenance"]["commit"],
    )
    assert text.startswith("# mini-breakout, mega, seed 3\n\nTrained for 480 frames; mean score ")
    assert f"{sum(evaluation['scores']) / 2:.1f} +- " in text
    assert "over 2 whole games" in text
    assert f"commit {commit} of" in text
    recording = record_run(shown, 8, device=torch.device("cpu"))
    assert recording.learnt is not None
    assert recording.learnt.g[1:].any()
    assert main(["eval", str(shown), "--episodes", "1", "--out", str(tmp_path / "eval.jsonl")]) == 0
    longer(shown, 960)
    capsys.readouterr()
    assert main(["resume", str(shown), "--no-tensorboard"]) != 0
    assert "to play and to draw control maps, so it cannot be resumed" in capsys.readouterr().err


def test_a_damaged_part_is_noticed(run, tmp_path, capsys):
    small = export_run(run, tmp_path / "small").path
    [part] = small.rglob("tensors-1.safetensors")
    part.write_bytes(part.read_bytes()[:-1] + b"x")
    assert main(["resume", str(small), "--no-tensorboard"]) == 1
    assert "damaged" in capsys.readouterr().err


def test_what_cannot_be_exported_is_refused(run, tmp_path, capsys):
    assert main(["export", str(run)]) == 2
    assert main(["export", str(run), "--small", "--to-watch"]) == 2
    assert main(["export", str(run), "--small", "--out", str(run)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "nothing"), "--small"]) == 2


def test_only_large_floats_become_half_and_moments_keep_their_range():
    tensors = {
        "policy.w": torch.linspace(-2, 2, 5_000),
        "policy.b": torch.linspace(-2, 2, 10),
        "policy.huge": torch.full((5_000,), 1e6),
        "optimiser.0.exp_avg_sq": torch.full((5_000,), 1e-12),
        "observer.control.normaliser.mean": torch.linspace(0, 1, 7_056),
        "observer.control.draws": torch.zeros(5_056, dtype=torch.uint8),
    }
    small, types = narrowed(tensors)
    assert types == {"policy.w": "float32", "optimiser.0.exp_avg_sq": "float32"}
    assert small["policy.w"].dtype == torch.float16
    back = widened(small, types)
    assert {name: tensor.dtype for name, tensor in back.items()} == {n: t.dtype for n, t in tensors.items()}
    assert back["optimiser.0.exp_avg_sq"][0] == pytest.approx(1e-12, rel=0.01)  # float16 would have made it 0


def test_very_large_matrices_have_eight_bits_if_asked_and_each_row_its_own_scale():
    rows = torch.linspace(-1, 1, 100_000).reshape(4, -1) * torch.tensor([[1.0], [1e-3], [0.0], [50.0]])
    small, types = narrowed({"policy.w": rows, "policy.b": torch.ones(2_000)}, eight_bits=True)
    assert small["policy.w"].dtype == torch.int8
    assert small["policy.b"].dtype == torch.float16
    back = widened(small, types)
    assert set(back) == {"policy.w", "policy.b"}
    worst = (back["policy.w"] - rows).abs().amax(1)
    assert (worst <= rows.abs().amax(1) / 254 * 1.001).all()  # half of one of 127 steps
    assert back["policy.w"].dtype == torch.float32


def test_files_are_as_large_as_allowed_and_no_larger():
    tensors = {str(i): torch.zeros(100) for i in range(5)}
    groups = in_files(tensors, 900)
    assert [list(group) for group in groups] == [["0", "1"], ["2", "3"], ["4"]]
    assert [list(group) for group in in_files(tensors, 10)] == [[str(i)] for i in range(5)]
