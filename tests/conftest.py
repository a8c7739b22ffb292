"""Shapes are checked while the tests run; each test process and its children use one thread, so that several can share
the cores."""

import importlib.util
import os
from pathlib import Path

import pytest
import torch

if importlib.util.find_spec("jaxtyping") and importlib.util.find_spec("beartype"):
    from jaxtyping import install_import_hook

    AUDIT = ("audit.controls", "audit.learnt", "audit.maps", "audit.scores", "audit.truth", "counterfactual.mini")
    OWN_CODE = tuple(f"integration.{part}" for part in ("observations", "samples", "steps", "watcher", "reward"))
    WORLD_MODEL = tuple(f"world_model.{part}" for part in ("vision", "memory", "learner", "dreams"))
    PACKAGES = (
        "ppo",
        "rollout",
        "stacking",
        "rewards",
        "statistics",
        "control",
        "observers",
        *OWN_CODE,
        *AUDIT,
        *WORLD_MODEL,
    )
    ROOT = Path(__file__).resolve().parent.parent

    def checked(part: str) -> list[str]:
        """The modules of a part. Triton compiles the text of its kernels, which must not be wrapped; nor may a package
        be named, which would stand for all that is in it."""
        place = ROOT / "megareward" / part.replace(".", "/")
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
        left_out = ("__init__.py", "interface.py")  # the latter name protocols, which cannot be checked at run time
        files = [file for file in files if file.name not in left_out and "import triton" not in file.read_text()]
        return [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]

    install_import_hook([module for part in PACKAGES for module in checked(part)], "beartype.beartype")

torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        skip = pytest.mark.skip(reason="needs a CUDA device")
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(skip)
