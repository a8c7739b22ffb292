"""Where Triton's kernels can be tried: on a GPU, or on the CPU with TRITON_INTERPRET=1. Elsewhere who imports this is
skipped."""

import os

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed: the plain PyTorch forms are used")
if torch.cuda.is_available():
    DEVICE = "cuda"
elif os.environ.get("TRITON_INTERPRET") == "1":
    DEVICE = "cpu"
else:
    pytest.skip("needs a GPU, or TRITON_INTERPRET=1", allow_module_level=True)
