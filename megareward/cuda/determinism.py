"""The same bits in every run of a seed: on a GPU, only kernels that add up in a fixed order.

Without this, gradients of some convolutions and sums over indices are added up in the order in which threads finish,
and two runs of one seed differ first in a last digit, then in all.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.utils.deterministic

from megareward.errors import RunError, UsageError

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
"""cuBLAS reads it once, when CUDA starts: with scratch memory of a fixed size its products have a fixed order."""
CUDNN: Any = torch.backends.cudnn
MEMORY: Any = torch.utils.deterministic


@contextmanager
def deterministic(wanted: bool) -> Iterator[None]:
    """Inside, if wanted, a kernel without a fixed order raises an error."""
    if not wanted:
        yield
        return
    if WORKSPACE not in os.environ:
        if torch.cuda.is_initialized():
            raise UsageError(f"--deterministic came after CUDA had started; set {WORKSPACE}=:4096:8 before that.")
        os.environ[WORKSPACE] = ":4096:8"
    enabled, filled = torch.are_deterministic_algorithms_enabled(), MEMORY.fill_uninitialized_memory
    fixed, fastest = CUDNN.deterministic, CUDNN.benchmark
    try:
        torch.use_deterministic_algorithms(True)
        CUDNN.deterministic, CUDNN.benchmark = True, False
        MEMORY.fill_uninitialized_memory = False  # nothing here reads what was never written
        yield
    except RuntimeError as refusal:
        if "deterministic implementation" not in str(refusal):
            raise
        raise RunError(
            f"--deterministic: '{str(refusal).split()[0]}' has no deterministic form on this device; train without "
            "--deterministic, on --device cpu, or with other settings."
        ) from refusal
    finally:
        torch.use_deterministic_algorithms(enabled)
        CUDNN.deterministic, CUDNN.benchmark = fixed, fastest
        MEMORY.fill_uninitialized_memory = filled
