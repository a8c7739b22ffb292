"""Only deterministic kernels: inside and nowhere else, and a refusal in one sentence."""

import pytest
import torch

from megareward.control.background import median
from megareward.cuda import determinism
from megareward.cuda.determinism import WORKSPACE, deterministic
from megareward.errors import RunError, UsageError


@pytest.fixture(autouse=True)
def _no_workspace(monkeypatch):
    monkeypatch.setenv(WORKSPACE, "to be removed again")
    monkeypatch.delenv(WORKSPACE)


def settings() -> tuple[bool, bool, bool, str | None]:
    cudnn = torch.backends.cudnn
    workspace = determinism.os.environ.get(WORKSPACE)
    return torch.are_deterministic_algorithms_enabled(), cudnn.deterministic, cudnn.benchmark, workspace


def test_kernels_are_deterministic_inside_and_only_if_that_is_wanted():
    before = settings()
    with deterministic(False):
        assert settings() == before
    with deterministic(True):
        assert settings() == (True, True, False, ":4096:8")
    assert settings()[:3] == before[:3]


def test_a_kernel_that_refuses_is_named_with_the_remedy():
    index, values = torch.tensor([0, 0]), torch.tensor([1.0, 2.0])
    words = r"--deterministic: 'put_' has no deterministic form .* without --deterministic"
    with pytest.raises(RunError, match=words), deterministic(True):
        torch.zeros(3).put_(index, values)
    assert not torch.are_deterministic_algorithms_enabled()


def test_other_errors_stay_what_they_are():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), deterministic(True):
        torch.zeros(2, 3) @ torch.zeros(2, 3)


def test_after_cuda_has_started_it_is_too_late(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(UsageError, match=f"set {WORKSPACE}=:4096:8 before"), deterministic(True):
        pass
    monkeypatch.setenv(WORKSPACE, ":16:8")
    with deterministic(True):
        assert settings()[3] == ":16:8"


@pytest.mark.parametrize("n", [1, 2, 7, 8])
def test_the_background_is_the_same_median(n):
    sample = torch.randint(256, (n, 5, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(n))
    with deterministic(True):
        inside = median(sample)
    assert torch.equal(inside, median(sample))
