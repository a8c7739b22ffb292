"""Shapes are checked while the tests run; each test process uses one thread, so that several can share the cores."""

import importlib.util

import pytest
import torch

if importlib.util.find_spec("jaxtyping") and importlib.util.find_spec("beartype"):
    from jaxtyping import install_import_hook

    AUDIT = ("audit.branches", "audit.learnt", "audit.scores", "audit.truth")
    OWN_CODE = tuple(f"integration.{part}" for part in ("observations", "samples", "steps", "watcher", "reward"))
    for part in ("ppo", "training.rollout", "rewards", "control", *OWN_CODE, *AUDIT):
        install_import_hook(f"megareward.{part}", "beartype.beartype")

torch.set_num_threads(1)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        skip = pytest.mark.skip(reason="needs a CUDA device")
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(skip)
