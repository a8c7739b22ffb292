"""Memory of this process: how much it uses, and what becomes of what it has freed."""

import ctypes
import os
import resource
from pathlib import Path

import torch


def host_mib() -> float:
    """Resident memory of this process in MiB; if the system does not report it, its peak so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # bytes on macOS
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def memory_in_use(device: torch.device) -> dict[str, float]:
    """Metrics for the logs, in which a memory leak can be seen."""
    used = {"memory/host_mib": host_mib()}
    if device.type == "cuda":
        used["memory/gpu_mib"] = torch.cuda.memory_reserved(device) / 2**20
    return used


M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""Of glibc's `mallopt`."""


def keep_freed_memory() -> None:
    """Let glibc keep what is freed, for the next tensor. By default it returns large blocks to the system at once, and
    the system clears new ones page by page, which takes longer than most operations on them. Does nothing elsewhere."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
