"""Writing files durably and atomically: synced to disk, whole or not at all. Links are never followed, so that a run
folder from elsewhere cannot redirect writes into other files."""

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from megareward.errors import RunError, UsageError
from megareward.waiting import waiting


def no_links(path: str, flags: int) -> int:
    """Opener that refuses links: `open(..., opener=no_links)`."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def write_synced(path: Path, data: bytes) -> None:
    with open(path, "wb", opener=no_links) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_synced(path: Path, data: bytes) -> None:
    """Replace a file atomically: it has its new content or its old one, even after a crash."""
    with replacing(path) as scratch:
        write_synced(scratch, data)
    sync_folder(path.parent)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a scratch path to write to, which replaces the file if no error was raised."""
    scratch = path.with_name(f".writing-{os.getpid()}-{path.name}")
    try:
        yield scratch
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


@contextmanager
def alone(path: Path, while_waiting: str) -> Iterator[None]:
    """Lock so that one process at a time makes this file; others wait until it is done or has died. If no lock is
    possible, as in a folder that cannot be written, nobody waits."""
    lock, handle = path.with_name(f".{path.name}.lock"), None
    with suppress(OSError):
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = no_links(str(lock), os.O_CREAT | os.O_WRONLY)
    if handle is None:
        yield
        return
    try:
        with waiting(while_waiting), suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        if path.exists():  # later processes find the file; those that wait now get this lock and then find it too
            lock.unlink(missing_ok=True)
        os.close(handle)


def append_line(path: Path, row: dict[str, Any]) -> None:
    """Append a line of JSON, after removing a last line that a kill or a full disk left unfinished."""
    with open(path, "a+b", opener=no_links) as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(json.dumps(row).encode() + b"\n")


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# What a command writes when its work is done -------------------------------------------------------------------------


def save_file(path: Path, data: bytes) -> Path:
    """Write a result atomically and make folders as needed. If it cannot be written, the error says why."""
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():  # a device or a pipe, such as /dev/stdout
            path.write_bytes(data)
        else:
            refuse_link(path)
            replace_synced(path, data)
    return path


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an `OSError` in writing this file into a `RunError` of one sentence."""
    try:
        yield
    except OSError as why:
        refuse_link(path)
        raise RunError(f"Cannot write {path} ({why.strerror}); name another place, as with --out.") from why


def check_place(path: Path) -> None:
    """Refuse a path that cannot be written, before the work whose result it is for."""
    refuse_link(path)
    folder = next(place for place in (path.absolute().parent, *path.absolute().parents) if place.exists())
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{path} cannot be written; name another place, as with --out.")


def refuse_link(path: Path) -> None:
    if path.is_symlink() and (path.is_file() or not path.exists()):
        raise UsageError(f"{path} is a link, which is not followed; remove it or name the file itself.")


def disk_is_full(why: OSError) -> bool:
    """Whether a write failed because of disk space, quota, or a limit on the size of files."""
    return why.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
