"""A checkpoint is whole or it is not there; what is damaged is noticed, named and passed over."""

import hashlib
import json
import os
from pathlib import Path

import pytest
import torch

from megareward.errors import RunError
from megareward.runs import checkpoint
from megareward.runs.checkpoint import (
    DamagedError,
    forget_newer,
    list_checkpoints,
    load_newest,
    read_checkpoint,
    save_checkpoint,
)
from megareward.state import joined, load_optimiser_state, optimiser_state, part

TENSORS = {
    "policy.weight": torch.linspace(-1, 1, 15).reshape(3, 5),
    "rollout.first": torch.tensor([True, False]),
    "rollout.frames": torch.arange(24, dtype=torch.uint8).reshape(2, 3, 4),
    "generator": torch.Generator().manual_seed(5).get_state(),
    "optimiser.0.step": torch.tensor(7.0),
}
STATE = {"frames": 1234, "score_book": {"recent": [0.1, -1e300], "running": []}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


def save(folder: Path, *moments: int) -> list[Path]:
    return [save_checkpoint(folder, frames, TENSORS, {**STATE, "frames": frames}) for frames in moments]


def silence(text: str) -> None:
    pytest.fail(f"an unexpected warning: {text}")


def cut_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip_one_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


def test_a_checkpoint_reads_back_exactly(folder):
    [path] = save(folder, 1234)
    found, tensors, state = load_newest(folder, silence)
    assert found == path
    assert state == STATE
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)


def test_a_view_of_a_larger_tensor_is_saved_without_its_neighbours(folder):
    large = torch.arange(1000.0).reshape(10, 100)
    save_checkpoint(folder, 1, {"column": large[:, 3], "row": large[4]}, {})
    _, tensors, _ = load_newest(folder, silence)
    assert torch.equal(tensors["column"], large[:, 3])
    assert torch.equal(tensors["row"], large[4])


def test_without_any_checkpoint_there_is_nothing_to_load(folder):
    assert load_newest(folder, silence) is None
    folder.mkdir()
    assert load_newest(folder, silence) is None


def test_the_last_two_are_kept(folder):
    saved = save(folder, 8, 16, 24, 1_000_000_000_000)
    assert list_checkpoints(folder) == saved[-2:]
    assert sorted(folder.iterdir()) == saved[-2:]


def test_the_newest_is_the_one_with_most_frames_however_many_digits_they_have(folder):
    save(folder, 999, 1000)
    assert load_newest(folder, silence)[2]["frames"] == 1000


def test_saving_the_same_moment_again_replaces_it(folder):
    save(folder, 8, 16)
    save_checkpoint(folder, 16, TENSORS, {"second": True})
    assert load_newest(folder, silence)[2] == {"second": True}
    assert [path.name for path in list_checkpoints(folder)] == [f"{8:012d}", f"{16:012d}"]


@pytest.mark.parametrize("write", [0, 1, 2, 3])
def test_a_checkpoint_is_invisible_until_its_last_file_is_written(folder, monkeypatch, write):
    """The process dies before write number `write`; number 3 is the rename that makes the folder visible."""
    save(folder, 8)
    calls = 0

    def dies(function):
        def wrapped(*args):
            nonlocal calls
            calls += 1
            if calls > write:
                raise KeyboardInterrupt
            return function(*args)

        return wrapped

    with monkeypatch.context() as dying:
        dying.setattr(checkpoint, "write_synced", dies(checkpoint.write_synced))
        dying.setattr(os, "rename", dies(os.rename))
        with pytest.raises(KeyboardInterrupt):
            save(folder, 16)
    assert calls == write + 1
    assert len(list(folder.iterdir())) == 2  # the leftover is there
    assert load_newest(folder, silence)[2]["frames"] == 8
    save(folder, 24)
    assert [path.name for path in sorted(folder.iterdir())] == [f"{8:012d}", f"{24:012d}"]  # and now it is gone


@pytest.mark.parametrize("harm", [cut_in_half, flip_one_bit, Path.unlink, lambda path: path.write_bytes(b"")])
@pytest.mark.parametrize("name", ["tensors.safetensors", "state.json", "manifest.json"])
def test_damage_to_any_file_is_noticed_named_and_passed_over(folder, harm, name):
    old, new = save(folder, 8, 16)
    harm(new / name)
    warnings: list[str] = []
    path, tensors, state = load_newest(folder, warnings.append)
    assert (path, state["frames"]) == (old, 8)
    assert torch.equal(tensors["policy.weight"], TENSORS["policy.weight"])
    [warning] = warnings
    assert new.name in warning
    assert "falling back" in warning
    # a manifest whose own hash is damaged accuses the file it speaks of
    assert name in warning or (name == "manifest.json" and "does not match its hash" in warning)


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("harm", [loop, folder_instead, lambda path: path.write_bytes(b"[" * 100_000)])
@pytest.mark.parametrize("name", ["tensors.safetensors", "state.json", "manifest.json"])
def test_a_file_that_cannot_be_read_is_passed_over_like_a_damaged_one(folder, harm, name):
    old, new = save(folder, 8, 16)
    harm(new / name)
    warnings: list[str] = []
    assert load_newest(folder, warnings.append)[0] == old
    assert len(warnings) == 1
    forget_newer(old)
    assert list_checkpoints(folder) == [old]


def test_a_file_or_a_link_in_the_place_of_a_checkpoint_is_damage_and_no_link_is_followed(folder, tmp_path):
    old, new, newest = save(folder, 8, 16)[0], folder / f"{17:012d}", folder / f"{18:012d}"
    new.write_text("no folder")
    save(tmp_path / "elsewhere", 18)
    newest.symlink_to(tmp_path / "elsewhere" / newest.name)
    warnings: list[str] = []
    assert load_newest(folder, warnings.append)[2]["frames"] == 16
    assert len(warnings) == 2
    assert "it is a link" in warnings[0]
    forget_newer(old)
    assert list_checkpoints(folder) == [old]
    assert (tmp_path / "elsewhere" / newest.name / "state.json").exists()


def test_forged_files_with_right_hashes_are_damage(folder):
    [path] = save(folder, 8)
    for name, content in (("state.json", b"[]"), ("state.json", b"{"), ("tensors.safetensors", b"nonsense")):
        before = (path / name).read_bytes()
        manifest = json.loads((path / "manifest.json").read_text())
        (path / name).write_bytes(content)
        (path / "manifest.json").write_text(json.dumps(manifest | {name: hashlib.sha256(content).hexdigest()}))
        with pytest.raises(DamagedError, match=name):
            read_checkpoint(path)
        (path / name).write_bytes(before)
        (path / "manifest.json").write_text(json.dumps(manifest))


def test_a_manifest_of_another_kind_is_damage(folder):
    [path] = save(folder, 8)
    (path / "manifest.json").write_text("[]")
    with pytest.raises(DamagedError, match="manifest"):
        read_checkpoint(path)


def test_if_all_are_damaged_the_run_cannot_go_on_and_says_so(folder):
    for path in save(folder, 8, 16):
        cut_in_half(path / "tensors.safetensors")
    warnings: list[str] = []
    with pytest.raises(RunError, match=r"All 2 checkpoints in .* are damaged; start a new run"):
        load_newest(folder, warnings.append)
    assert len(warnings) == 2


def test_a_run_that_goes_on_from_an_older_checkpoint_forgets_the_damaged_newer_one(folder):
    old, new = save(folder, 8, 16)
    cut_in_half(new / "state.json")
    forget_newer(old)
    assert list_checkpoints(folder) == [old]
    save(folder, 12)  # were 16 still there, it would now be one of the last two
    assert [int(path.name) for path in list_checkpoints(folder)] == [8, 12]


def test_state_json_can_be_read_by_a_person(folder):
    [path] = save(folder, 1234)
    assert json.loads((path / "state.json").read_text()) == STATE


# Names and optimisers ------------------------------------------------------------------------------------------------


def test_part_undoes_joined_and_takes_whole_words_only():
    both = joined(env={"a": torch.zeros(1)}, env2={"a": torch.ones(1)})
    assert part(both, "env") == {"a": torch.zeros(1)}
    assert part(both, "en") == {}


def trained(steps: int) -> tuple[torch.nn.Module, torch.optim.Adam]:
    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 2))
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01, eps=1e-5)
    for _ in range(steps):
        step(network, optimiser)
    return network, optimiser


def step(network: torch.nn.Module, optimiser: torch.optim.Adam) -> None:
    optimiser.zero_grad()
    network(torch.ones(4, 3)).square().sum().backward()
    optimiser.step()


@pytest.mark.parametrize("steps", [0, 3])
def test_a_restored_optimiser_takes_the_same_next_step(folder, steps):
    network, optimiser = trained(steps)
    save_checkpoint(folder, 1, joined(optimiser=optimiser_state(optimiser)), {})
    weights = [p.detach().clone() for p in network.parameters()]
    other, restored = trained(0)
    for parameter, weight in zip(other.parameters(), weights, strict=True):
        parameter.data.copy_(weight)
    load_optimiser_state(restored, part(load_newest(folder, silence)[1], "optimiser"))
    step(network, optimiser)
    step(other, restored)
    for p, q in zip(network.parameters(), other.parameters(), strict=True):
        assert torch.equal(p, q)


def test_restored_moments_lie_in_memory_as_their_parameters_do():
    """Adam's fused kernel refuses others, and files know one order only."""
    network = torch.nn.Conv2d(3, 5, 2)
    network.weight.data = network.weight.data.contiguous(memory_format=torch.channels_last)
    optimiser, restored = torch.optim.Adam(network.parameters()), torch.optim.Adam(network.parameters())
    network(torch.rand(2, 3, 4, 4)).sum().backward()
    optimiser.step()
    files = {name: tensor.contiguous() for name, tensor in optimiser_state(optimiser).items()}
    load_optimiser_state(restored, files)
    for name in ("exp_avg", "exp_avg_sq"):
        moment = restored.state[network.weight][name]
        assert torch.equal(moment, optimiser.state[network.weight][name])
        assert moment.stride() == network.weight.stride() != moment.contiguous().stride()


def test_the_learning_rate_of_the_config_outlives_a_restore():
    _, optimiser = trained(2)
    _, other = trained(0)
    other.param_groups[0]["lr"] = 0.5
    load_optimiser_state(other, optimiser_state(optimiser))
    assert other.param_groups[0]["lr"] == 0.5


def test_a_checkpoint_of_the_first_format_is_read_under_the_present_names(folder):
    tensors = {"control.modules.adm.w": torch.ones(2), "policy.trunk.0.weight": torch.zeros(1)}
    save_checkpoint(folder, 1, tensors, {"frames": 1})
    _, found, _ = load_newest(folder, silence)
    assert found.keys() == {"observer.control.modules.adm.w", "policy.trunk.0.weight"}
    save_checkpoint(folder, 2, tensors, {"frames": 2, "format": checkpoint.FORMAT})
    assert load_newest(folder, silence)[1].keys() == tensors.keys()
