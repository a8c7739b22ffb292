"""A run that several tables have in common is made once, and only that very run is taken for it."""

from dataclasses import replace

from megareward.experiments.plans import CAUSES, DEATH, DEATH_ATARI, PLAY
from megareward.experiments.recorded_elsewhere import adopt, each_once
from megareward.experiments.runner import Job, is_done, record_path
from megareward.training.config import to_dict
from tests.unit.records import record_of_config


def cell_of(experiment, row, column, seed=0):
    return experiment.cells_of(row, column)[seed]


def recorded(folder, experiment, cell, **more):
    record = record_of_config(to_dict(cell.config), **more)
    return record.write(record_path(folder / experiment.name, cell))


def job_of(folder, experiment, cell, **asked):
    return Job(cell, folder / "runs", folder / experiment.name, **asked)


def test_the_default_is_made_once_for_all_tables(tmp_path):
    source = recorded(tmp_path, DEATH, cell_of(DEATH, "mega", "mini-demon", 3))
    cell = cell_of(CAUSES, "difference, learnt maps", "mini-demon", 3)
    assert adopt(job_of(tmp_path, CAUSES, cell)) == source
    assert is_done(tmp_path / CAUSES.name, cell)
    assert record_path(tmp_path / CAUSES.name, cell).read_bytes() == source.read_bytes()


def test_other_settings_games_and_seeds_are_other_runs(tmp_path):
    for row, column, seed in (("moved", "mini-demon", 3), ("mega", "mini-pong", 3), ("mega", "mini-demon", 2)):
        recorded(tmp_path, DEATH, cell_of(DEATH, row, column, seed))
    unfinished = cell_of(DEATH, "mega", "mini-demon", 3)
    recorded(tmp_path, DEATH, unfinished, finished=False)
    cell = cell_of(CAUSES, "difference, learnt maps", "mini-demon", 3)
    assert adopt(job_of(tmp_path, CAUSES, cell)) is None
    assert not record_path(tmp_path / CAUSES.name, cell).exists()


def test_a_record_that_is_older_than_a_setting_counts_here_if_it_does_there(tmp_path):
    cell = cell_of(DEATH, "mega", "mini-demon", 3)
    here = job_of(tmp_path, CAUSES, cell_of(CAUSES, "difference, learnt maps", "mini-demon", 3))
    config = to_dict(cell.config)
    config["ppo"]["clip"] = 0.3
    path = record_of_config(config).write(record_path(tmp_path / DEATH.name, cell))
    assert adopt(here) is None  # the other experiment takes it for another run, too
    config["ppo"]["clip"] = cell.config.ppo.clip
    del config["ppo"]["clip_decays"]
    record_of_config(config).write(path)
    assert adopt(here) == path


def test_files_that_belong_to_no_plan_are_not_looked_at(tmp_path):
    cell = cell_of(DEATH, "mega", "mini-demon", 3)
    record_of_config(to_dict(cell.config)).write(tmp_path / "by-hand" / f"{cell.name}.json")
    assert adopt(job_of(tmp_path, CAUSES, cell_of(CAUSES, "difference, learnt maps", "mini-demon", 3))) is None


def test_all_that_is_asked_of_a_run_must_be_in_its_record(tmp_path):
    cell = cell_of(DEATH_ATARI, "alive", "breakout")
    source = recorded(tmp_path, DEATH_ATARI, cell)
    here = cell_of(PLAY, "alive", "breakout")
    assert adopt(job_of(tmp_path, PLAY, here, whole_games=30)) is None
    games = {"frames": cell.config.frames, "scores": [1.0] * 30}
    recorded(tmp_path, DEATH_ATARI, cell, evaluations=[games | {"frames": 1_000_000}])
    assert adopt(job_of(tmp_path, PLAY, here, whole_games=30)) is None
    recorded(tmp_path, DEATH_ATARI, cell, evaluations=[games])
    assert adopt(job_of(tmp_path, PLAY, here, whole_games=30, audit=())) is None
    assert adopt(job_of(tmp_path, PLAY, replace(here, before=cell), whole_games=30)) is None
    assert adopt(job_of(tmp_path, PLAY, here, whole_games=30)) == source


def test_of_jobs_that_make_the_same_record_the_first_is_kept(tmp_path):
    mega, default = cell_of(CAUSES, "difference, learnt maps", "mini-demon", 3), cell_of(DEATH, "mega", "mini-demon", 3)
    other = cell_of(DEATH, "mega", "mini-demon", 2)
    one, two, three = (job_of(tmp_path, *own) for own in ((CAUSES, mega), (DEATH, default), (DEATH, other)))
    assert each_once([one, two, three, two]) == [one, three]
    more = replace(two, whole_games=30)
    assert each_once([one, more]) == [one, more]
    after = replace(two, cell=replace(default, before=other))
    assert each_once([one, after, after]) == [one, after, after]  # it could not be copied
