"""Checkpoints that survive: written aside, synced, then renamed; checked by hash when read; the last two are kept.

checkpoints/000001048576/      the frames of training it holds
    tensors.safetensors        every tensor, by dotted name; a small copy may have several: tensors-1.safetensors, ...
    state.json                 counters and other plain values
    manifest.json              SHA-256 of all others
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch

from megareward.errors import RunError
from megareward.runs.durable import sync_folder, write_synced
from megareward.runs.narrow import in_files, narrowed, widened
from megareward.types import Tensor

FORMAT = 2
"""Version of the tensors' names. A checkpoint without a format in its state has version 1: it is read, not resumed."""
KEEP = 2
_SCRATCH = ".writing-"
TENSORS = re.compile(r"tensors(-\d+)?\.safetensors")


def save_checkpoint(
    folder: Path,
    frames: int,
    tensors: dict[str, Tensor],
    state: dict[str, Any],
    small: int | None = None,
    eight_bits: bool = False,
) -> Path:
    """Write one checkpoint atomically and remove all but the last two. `small`: in half precision where that is safe,
    in files with at most so many bytes of tensors; `eight_bits`: see `narrowed`."""
    folder.mkdir(exist_ok=True)
    clear_scratch(folder)
    scratch = folder / f"{_SCRATCH}{frames:012d}"
    final = folder / f"{frames:012d}"
    scratch.mkdir()
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    files: dict[str, bytes] = {}
    if small is None:
        files["tensors.safetensors"] = safetensors.torch.save(plain)
    else:
        plain, types = narrowed(plain, eight_bits)
        state = state | {"types": types}
        for i, group in enumerate(in_files(plain, small), 1):
            files[f"tensors-{i}.safetensors"] = safetensors.torch.save(group)
    files["state.json"] = json.dumps(state, indent=1).encode()
    manifest = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    for name, data in {**files, "manifest.json": json.dumps(manifest, indent=1).encode()}.items():
        write_synced(scratch / name, data)
    sync_folder(scratch)
    _remove(final)  # the same moment saved twice, as on Ctrl-C right after a checkpoint
    os.rename(scratch, final)
    sync_folder(folder)
    for old in list_checkpoints(folder)[:-KEEP]:
        _remove(old)
    return final


Tensors = dict[str, Tensor]
Accept = Callable[[Path, Tensors, dict[str, Any]], None]


def load_newest(
    folder: Path, warn: Callable[[str], None], accept: Accept = lambda path, tensors, state: None
) -> tuple[Path, Tensors, dict[str, Any]] | None:
    """The newest whole checkpoint, or None if none was ever written. Damaged ones are skipped with a warning; `accept`
    may also reject one by raising `DamagedError`."""
    saved = list_checkpoints(folder)
    for path in reversed(saved):
        try:
            tensors, state = read_checkpoint(path)
            accept(path, tensors, state)
            return path, tensors, state
        except DamagedError as damage:
            warn(f"Checkpoint {path.name} is damaged ({damage}); falling back to the one before.")
    if saved:
        raise RunError(f"All {len(saved)} checkpoints in {folder} are damaged; start a new run.")
    return None


def newest_state(folder: Path) -> dict[str, Any]:
    """The newest readable state.json; tensors and hashes are not checked."""
    for path in reversed(list_checkpoints(folder)):
        try:
            return _json(path / "state.json", _read(path / "state.json"))
        except DamagedError:
            continue
    return {}


class DamagedError(Exception):
    """A checkpoint is damaged: it is not what was written."""


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the state of a checkpoint; raises `DamagedError` if its hashes do not match."""
    if path.is_symlink():
        raise DamagedError("it is a link")
    manifest = _json(path / "manifest.json", _read(path / "manifest.json"))
    parts = [name for name in manifest if TENSORS.fullmatch(name)] or ["tensors.safetensors"]
    data = {name: _read(path / name) for name in (*parts, "state.json")}
    for name, content in data.items():
        if hashlib.sha256(content).hexdigest() != manifest.get(name):
            raise DamagedError(f"{name} does not match its hash")
    state = _json(path / "state.json", data["state.json"])
    tensors: dict[str, Tensor] = {}
    for name in parts:
        try:
            tensors |= safetensors.torch.load(data[name])
        except (safetensors.SafetensorError, ValueError, KeyError) as broken:
            raise DamagedError(f"{name} cannot be read: {broken}") from broken
    if isinstance(types := state.get("types"), dict):
        tensors = widened(tensors, types)
    if "format" not in state:
        tensors = {f"observer.{name}" if name.startswith("control.") else name: t for name, t in tensors.items()}
    return tensors, state


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError as missing:
        raise DamagedError(f"{file.name} is missing") from missing
    except OSError as why:
        raise DamagedError(f"{file.name} cannot be read: {why.strerror}") from why


def _json(file: Path, content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as broken:
        raise DamagedError(f"{file.name} is not JSON") from broken
    if not isinstance(value, dict):
        raise DamagedError(f"{file.name} is not what was written")
    return value


def list_checkpoints(folder: Path) -> list[Path]:
    """Oldest first, whole or not; scratch folders of interrupted writes are not checkpoints."""
    return sorted(p for p in folder.glob("[0-9]*") if p.name.isdecimal()) if folder.is_dir() else []


def forget_newer(path: Path) -> None:
    """Remove checkpoints newer than the one that a run resumes from. They were damaged, no longer belong to the run,
    and would count among the last two."""
    for newer in list_checkpoints(path.parent):
        if newer > path:
            _remove(newer)


def clear_scratch(folder: Path) -> None:
    for leftover in folder.glob(f"{_SCRATCH}*"):
        _remove(leftover)


def _remove(path: Path) -> None:
    """Remove a checkpoint, or whatever is in its place; of a link, only the link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
