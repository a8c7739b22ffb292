"""How the host waits for the GPU: spinning, which is CUDA's default and answers at once, or asleep, which leaves the
core to others. Runs that share a machine's cores with each other's emulators had better sleep."""

import ctypes
import os
from collections.abc import Mapping

VARIABLE = "MEGAREWARD_GPU_WAIT"
ASLEEP: Mapping[str, str] = {VARIABLE: "asleep"}
BLOCKING_SYNC = 4
"""CU_CTX_SCHED_BLOCKING_SYNC of CUDA's driver."""


def wait_as_asked() -> None:
    """Sleep while waiting for the GPU, if the environment asks for it. Comes before anything else uses the GPU; where
    the driver refuses, the host spins as usual."""
    if os.environ.get(VARIABLE) != ASLEEP[VARIABLE]:
        return
    driver, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    driver.cuInit(0)
    driver.cuDeviceGet(ctypes.byref(device), 0)
    driver.cuDevicePrimaryCtxSetFlags_v2(device, BLOCKING_SYNC)
