"""Where a number comes from: commit, versions and hardware, written into every run."""

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

import megareward

PACKAGES = ("torch", "numpy", "gymnasium", "ale-py", "safetensors")


def provenance(device: torch.device) -> dict[str, Any]:
    return {
        "megareward": megareward.__version__,
        "commit": commit(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
    }


def commit() -> str | None:
    """Commit of the source tree, with a '+' if it has changes; None for an installed package.

    MEGAREWARD_COMMIT overrides it, for machines that hold a copy of the tree without its history.
    """
    if given := os.environ.get("MEGAREWARD_COMMIT"):
        return given
    root = Path(megareward.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    head = _git(root, "rev-parse", "HEAD")
    return head and head + ("+" if _git(root, "status", "--porcelain", "--untracked-files=no") else "")


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
