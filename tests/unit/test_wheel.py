"""The package as others get it: a wheel, installed outside of the clone."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import megareward

ROOT = Path(__file__).parents[2]

USE = """
import megareward, pathlib, sys
assert pathlib.Path(megareward.__file__).is_relative_to(sys.argv[1]), megareward.__file__
from megareward.cli import main
assert main(["games"]) == 0
assert main(["train", "rnd", "--preset", "debug", "--frames", "96", "--device", "cpu", "--quiet", "--out", "run"]) == 0
assert main(["watch", "run", "--steps", "9", "--device", "cpu"]) == 0
assert main(["report", "run"]) == 0
from megareward.training.pretrained import pretrained_games
assert "mini-breakout" in pretrained_games()
for game in pretrained_games():
    assert main(["watch", "--pretrained", game, "--steps", "9", "--device", "cpu"]) == 0
    assert pathlib.Path(f"watch-{game}.html").stat().st_size > 10_000
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy, so that nothing is left in the clone."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    shutil.copytree(ROOT / "megareward", source / "megareward", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--wheel-dir", str(folder), str(source)], check=True, timeout=120)
    [built] = folder.glob("*.whl")
    return built


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel):
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = (path for path in (ROOT / "megareward").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert inside == {path.relative_to(ROOT).as_posix() for path in files}


def test_the_wheel_trains_watches_reports_and_shows_pretrained_agents_from_a_folder_of_its_own(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    path = {"PYTHONPATH": str(tmp_path / "site"), "PATH": ""}
    words = [sys.executable, "-P", "-c", USE, str(tmp_path / "site")]
    done = subprocess.run(words, cwd=tmp_path, env=path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_version_is_the_same_everywhere():
    for name in ("pyproject.toml", "CITATION.cff"):
        assert re.findall(r'(?m)^version[:=\s]+"?([\d.]+)', (ROOT / name).read_text()) == [megareward.__version__], name
