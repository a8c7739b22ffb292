"""Files that are on the disk when we say so."""

import errno
import os
from pathlib import Path


def write_synced(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_synced(path: Path, data: bytes) -> None:
    """The file has its new content or its old one, whatever happens meanwhile."""
    scratch = path.with_name(f".writing-{path.name}.{os.getpid()}")
    try:
        write_synced(scratch, data)
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def disk_is_full(why: OSError) -> bool:
    """Whether a write failed for want of space, of quota, or because of a limit on the size of files."""
    return why.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
