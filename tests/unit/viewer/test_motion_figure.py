"""`megareward figure masks` draws runs that have a motion segmentation, and refuses others in a sentence."""

import pytest

from megareward.cli import main
from megareward.training.run import start
from tests.seams.small_runs import QUIET, N, T, small

OPTIONS = ["--columns", "2", "--start", "0", "--every", "1", "--device", "cpu"]


@pytest.mark.parametrize("method", ["m-rnd", "morel"])
def test_masks_are_drawn_over_frames(method, tmp_path, capsys):
    start(small(method, frames=N * T), tmp_path / "run", **QUIET)
    assert main(["figure", "masks", "--run", str(tmp_path / "run"), *OPTIONS]) == 0
    for suffix in ("png", "pdf"):
        assert (tmp_path / "run" / f"masks.{suffix}").stat().st_size > 1000
    assert "Drew" in capsys.readouterr().out


def test_a_run_without_masks_is_refused(tmp_path, capsys):
    start(small("alive", frames=N * T, g_channel="no"), tmp_path / "run", **QUIET)
    assert main(["figure", "masks", "--run", str(tmp_path / "run"), *OPTIONS]) == 2
    assert "give one of `morel` or `m-rnd`" in capsys.readouterr().err
