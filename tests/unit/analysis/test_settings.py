"""Which runs are seeds of one experiment: `results` and `report` give the same answer."""

from dataclasses import replace

import pytest

from megareward.analysis.results import add_run, table
from megareward.control.config import ControlConfig
from megareward.runs.record import read_records
from megareward.viewer.runs import Run, differences, group_runs
from tests.unit.viewer.test_report import logged

BATCH = replace(ControlConfig(), batch=ControlConfig().batch * 2)
WARMUP = replace(ControlConfig(), warmup_steps=ControlConfig().warmup_steps + 1)


@pytest.mark.parametrize(
    ("method", "changes", "groups"),
    [
        ("rnd", {"control": BATCH}, 1),  # no control model is trained
        ("rnd", {"control": WARMUP}, 2),
        ("mega", {"control": BATCH}, 2),
        ("mega", {"checkpoint_minutes": 9.0, "device": "cpu"}, 1),
        ("extrinsic", {"g_channel": "auto"}, 1),  # it never shows g
        ("mega", {"g_channel": "auto"}, 2),
    ],
)
def test_the_same_runs_are_one_group_in_results_and_in_report(tmp_path, method, changes, groups):
    paths = [logged(tmp_path / "a", method, seed=0), logged(tmp_path / "b", method, seed=1, **changes)]
    for path in paths:
        add_run(path, tmp_path / "ledger")
    lines = table(read_records([tmp_path / "ledger"])).splitlines()
    runs = [Run.read(path) for path in paths]
    assert sum(line.startswith("breakout ") for line in lines) == groups
    assert len(group_runs(runs)) == groups
    assert len({group.name for group in group_runs(runs)}) == groups
    assert bool(differences(runs)) == (groups > 1)
