"""What `pip install megareward` brings is enough for all but figures; those name what they need before they begin."""

import subprocess
import sys

import pytest

WITHOUT = """
import sys
for extra in ("matplotlib", "tensorboard", "torch.utils.tensorboard", "stable_baselines3", "imageio_ffmpeg"):
    sys.modules[extra] = None
from megareward.cli import main
sys.exit(main(sys.argv[1:]))
"""
TINY = "--preset debug --device cpu --frames 384 --env.points 1 --env.max-steps 8".split()  # noqa: SIM905


def without_extras(words: list[str], folder) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", WITHOUT, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("without")
    trained = without_extras(["train", "mega", *TINY, "--out", "run"], folder)
    assert trained.returncode == 0, trained.stderr
    assert 'pip install "megareward[tensorboard]" brings it' in trained.stderr
    assert "metrics, and checkpoints of the run" in trained.stdout
    return folder


@pytest.mark.parametrize(
    "words",
    [
        "resume run",
        "eval run --episodes 1",
        "audit run --episodes 1 --frames 6 --lags 3 --device cpu",
        "watch run --steps 8 --video clip.gif",
        "report run",
        "results add run --ledger ledger",
        "games --masks masks.png",
    ],
)
def test_it_works(folder, words):
    done = without_extras(words.split(), folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", ["figure case-study --run run", "figure curves ledger", "play"])
def test_a_figure_names_the_extra_before_any_work(folder, words):
    if words.endswith("ledger") and not (folder / "ledger").exists():  # made above, if that was in this process
        without_extras(["results", "add", "run", "--ledger", "ledger"], folder)
    done = without_extras(words.split(), folder)
    assert done.returncode == 2
    assert done.stderr == 'megareward: Figures need matplotlib; pip install "megareward[figures]" brings it.\n'
