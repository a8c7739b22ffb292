"""The recipes of docs/own-code.md run as they are printed, for fewer steps."""

import importlib.util
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "own-code.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_recipe_runs(number, tmp_path, monkeypatch, capsys):
    source = BLOCKS[number]
    if "stable_baselines3" in source and importlib.util.find_spec("stable_baselines3") is None:
        pytest.skip('needs the extra: pip install "megareward[sb3]"')
    monkeypatch.chdir(tmp_path)
    exec(compile(source.replace("200_000", "128"), f"recipe {number}", "exec"), {"__name__": "recipe"})


def test_there_are_three_recipes():
    assert len(BLOCKS) == 3
