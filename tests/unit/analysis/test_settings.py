"""Which runs are seeds of one experiment: `results` and `report` give the same answer."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from megareward.analysis.results import add_run, table
from megareward.analysis.settings import without_seed
from megareward.control.config import ControlConfig
from megareward.runs.record import read_records
from megareward.training.config import TrainConfig, to_dict
from megareward.viewer.runs import Run, differences, group_runs
from tests.unit.viewer.test_report import logged

BATCH = replace(ControlConfig(), batch=ControlConfig().batch * 2)
BACKGROUND = replace(ControlConfig(), background_frames=ControlConfig().background_frames * 2)


@pytest.mark.parametrize(
    ("method", "changes", "groups"),
    [
        ("rnd", {"control": BATCH}, 1),  # no control model is trained
        ("rnd", {"control": BACKGROUND}, 1),
        ("rnd", {"warmup_steps": 1}, 2),
        ("extrinsic", {"warmup_steps": 1}, 1),  # it has no warm-up
        ("mega", {"control": BATCH}, 2),
        ("mega", {"control": BACKGROUND}, 2),
        ("mega", {"warmup_steps": 1}, 2),
        ("mega", {"n_envs": 16}, 2),
        ("mega", {"rollout_steps": 64}, 2),
        ("mega", {"checkpoint_minutes": 9.0, "device": "cpu"}, 1),
        ("extrinsic", {"g_channel": "auto"}, 1),  # it never shows g
        ("mega", {"g_channel": "auto"}, 2),
    ],
)
def test_the_same_runs_are_one_group_in_results_and_in_report(tmp_path, method, changes, groups):
    assert (
        groups_of(tmp_path, logged(tmp_path / "a", method), logged(tmp_path / "b", method, seed=1, **changes)) == groups
    )


def test_a_run_that_is_older_than_a_setting_is_a_group_of_its_own(tmp_path):
    old, new = logged(tmp_path / "old"), logged(tmp_path / "new", seed=1)
    about = json.loads((old / "config.json").read_text())
    del about["config"]["control"]["latent"]["flash"]
    (old / "config.json").write_text(json.dumps(about))
    assert groups_of(tmp_path, old, new) == 2
    assert group_runs([Run.read(old), Run.read(new)])[0].name == "mega (flash –)"


def test_a_run_of_the_first_version_and_a_new_one_of_the_same_settings_are_one_group(tmp_path):
    """The first version had the number of environments in `ppo`, the warm-up in `control`, and no `start_from`."""
    old, new = logged(tmp_path / "old"), logged(tmp_path / "new", seed=1)
    about = json.loads((old / "config.json").read_text())
    config = about["config"]
    assert config.pop("start_from") is None
    config["ppo"] |= {"n_envs": config.pop("n_envs"), "rollout": config.pop("rollout_steps")}
    config["control"]["warmup_steps"] = config.pop("warmup_steps")
    del config["control"]["background_frames"]
    (old / "config.json").write_text(json.dumps({**about, "config_version": 1}))
    assert groups_of(tmp_path, old, new) == 1
    assert Run.read(old).changed() == Run.read(new).changed()


def groups_of(folder: Path, *paths: Path) -> int:
    """Lines of the table, which must be as many as there are groups in the report, each with a name of its own."""
    for path in paths:
        add_run(path, folder / "ledger")
    lines = table(read_records([folder / "ledger"])).splitlines()
    runs = [Run.read(path) for path in paths]
    found = group_runs(runs)
    assert sum(line.startswith("breakout ") for line in lines) == len(found) == len({group.name for group in found})
    assert bool(differences(runs)) == (len(found) > 1)
    return len(found)


def test_settings_that_lack_the_rule_for_death_are_compared_without_it():
    """As in a config.json that somebody has forged."""
    config = json.loads(json.dumps(to_dict(TrainConfig("mega", "mini-pong"))))
    whole = without_seed(config)
    del config["episodic"]
    assert without_seed(config) == whole
