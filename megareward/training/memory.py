"""How much memory this process holds."""

import os
import resource
from pathlib import Path

import torch


def host_mib() -> float:
    """Resident memory of this process; where the system does not tell, its largest so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # bytes on macOS
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def memory_in_use(device: torch.device) -> dict[str, float]:
    """For the logs: a run whose memory grows should be seen to."""
    used = {"memory/host_mib": host_mib()}
    if device.type == "cuda":
        used["memory/gpu_mib"] = torch.cuda.memory_reserved(device) / 2**20
    return used
