"""Files that are on the disk when we say so."""

import errno
import os
from pathlib import Path


def write_synced(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def disk_is_full(why: OSError) -> bool:
    """Whether a write failed for want of space, of quota, or because of a limit on the size of files."""
    return why.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
