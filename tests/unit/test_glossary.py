"""Every number that training logs is explained."""

import re
from pathlib import Path

import pytest

from megareward.rewards import METHODS
from tests.seams.small_runs import small, whole

GLOSSARY = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text()
EXPLAINED = set(re.findall(r"`([\w/]+)`", GLOSSARY))


@pytest.mark.parametrize("method", METHODS)
def test_every_metric_of_a_method_is_in_the_glossary(method):
    outcome, _ = whole(small(method))
    names = {name for row in outcome.metrics for name in row if name != "frames"}
    own = {name.split("/")[1] for name in names if name.startswith("reward/")}
    for name in names:
        group, _, last = re.sub(r"^level_\d+/", "level_N/", name).partition("/")
        plain = (
            f"NAME/{last}" if group in own else f"{group}/NAME" if last in own else f"{group}/{last}" if last else name
        )
        assert plain in EXPLAINED, name
