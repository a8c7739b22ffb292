"""Memory of a run: freed blocks are used again, not returned to the system and cleared anew."""

import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
import torch
from megareward.training.memory import keep_freed_memory

if "keep" in sys.argv:
    keep_freed_memory()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def work():
    torch.ones(64 * 2**20, dtype=torch.uint8).add_(1)

for _ in range(16):
    work()
before = faults()
for _ in range(16):
    work()
print((faults() - before) / 16)
"""


def page_faults(*words: str) -> float:
    """For a tensor of 64 MiB."""
    done = subprocess.run([sys.executable, "-c", FAULTS, *words], capture_output=True, text=True, check=True)
    return float(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="this is about glibc")
def test_large_tensors_get_the_memory_of_those_before_them():
    default = page_faults()
    assert default > 30  # 16,384 pages, or 32 large ones
    assert page_faults("keep") < default / 4
