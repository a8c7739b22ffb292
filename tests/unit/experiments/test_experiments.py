"""A table is a list of runs: all of them are made once, recorded, and put in their place."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pytest

from megareward.audit.record import Plan, question
from megareward.audit.run_audit import audit_run
from megareward.cli import main
from megareward.experiments import audits, make, paper_plans, runner, table
from megareward.experiments.plans import (
    ALL_MAPS,
    ATARI_RELATIONS,
    DEATH_ATARI,
    EXPERIMENTS,
    FORMS,
    LITERAL_AND_DEFAULT,
    MAPS,
    MINI,
    PAPER_GAMES,
    PARITY,
    PLAY,
    Cell,
    matching,
)
from megareward.experiments.table import audits_of, games_markdown, markdown, scores_of
from megareward.experiments.with_score import PRETRAINING
from megareward.runs.checkpoint import newest_state
from megareward.runs.folder import RunFolder
from megareward.runs.record import Record
from megareward.training.config import TrainConfig, bearing, to_dict
from megareward.training.presets import with_preset
from megareward.training.run import create
from tests.unit.records import record_of_config


def test_every_run_of_every_experiment_has_a_name_of_its_own():
    for experiment in EXPERIMENTS.values():
        cells = experiment.cells()
        assert (
            len({cell.name for cell in cells})
            == len(cells)
            == sum(experiment.seeds_of.get(row, experiment.seeds) for row in experiment.rows) * len(experiment.columns)
        )


def test_random_play_on_atari_is_short_and_one_run_for_all_tables():
    runs = []
    for experiment in (PLAY, PRETRAINING, paper_plans.PLAY["10M"], paper_plans.PLAY["80M"]):
        [cell, *_] = experiment.cells_of("random", "pong")
        assert cell == next(cell for cell in experiment.cells() if cell.row == "random" and cell.column == "pong")
        runs.append(bearing(to_dict(cell.config)))
        assert experiment.cells_of("scratch" if experiment is PRETRAINING else "mega", "pong")[0].config.frames >= 10e6
    assert runs == [runs[0]] * 4
    assert runs[0]["frames"] == 500_000
    assert PLAY.cells(frames=960)[0].config.frames == 960


def test_the_table_says_which_rows_are_of_another_length(tmp_path):
    assert "after 10,000,000 frames (random: 500,000), one seed" in markdown(PLAY, PLAY.cells(), tmp_path)
    text = markdown(replace(PLAY, frames_of={}), PLAY.cells(), tmp_path)
    assert "after 10,000,000 frames, one seed" in text


def test_rows_with_all_columns_are_put_between_two_of_them_and_averaged_over_the_games():
    plan = replace(MINI, rows=dict.fromkeys(("low", "half", "gap", "high"), MINI.rows["mega"]), seeds=2)
    plan = replace(plan, columns={name: MINI.columns[name] for name in ("mini-pong", "mini-demon")})
    scores = {("low", "mini-pong"): [0.0, 2.0], ("high", "mini-pong"): [5.0], ("half", "mini-pong"): [3.0, 3.0]}
    scores |= {("low", "mini-demon"): [10.0], ("high", "mini-demon"): [0.0], ("half", "mini-demon"): [10.0, 0.0]}
    scores |= {("gap", "mini-pong"): [4.0]}
    assert table.between_lines(plan, scores) == []
    found = table.between_lines(replace(plan, between=("low", "high")), scores)
    assert found[0] == "| mini-games, low is 0 and high is 1 | mini-pong | mini-demon | mean |"
    assert found[2] == "| half | 0.50 | 0.50 | 0.50 [0.25, 0.75] |"  # one game says nothing about spread, one varies
    assert not any(line.startswith(("| low", "| gap", "| high")) for line in found)
    del scores["high", "mini-demon"]
    assert table.between_lines(replace(plan, between=("low", "high")), scores) == []


def test_the_mini_game_table_gives_every_method_the_same_frames_and_the_same_game():
    cells = [cell for cell in MINI.cells() if cell.column == "mini-demon tv" and cell.config.seed == 2]
    assert {cell.config.method for cell in cells} == set(MINI.rows)
    assert {(cell.config.frames, cell.config.game, cell.config.env) for cell in cells} == {
        (150_000, "mini-demon", cells[0].config.env)
    }
    assert cells[0].config.env.noisy_tv


def test_a_form_changes_what_it_names_and_nothing_else():
    cells = {cell.row: cell.config for cell in FORMS.cells(seeds=1) if cell.column == "mini-pong"}
    default, literal = cells["base"], cells["literal Eq. 10-11"]
    assert (literal.control.latent.hold, literal.control.latent.clip) == (False, False)
    assert literal.control.latent.reward == "difference"
    assert replace(literal, control=default.control) == default
    assert replace(literal.control, latent=default.control.latent) == default.control
    assert cells["oracle"].uses_oracle


def test_fast_and_plain_runs_differ_in_nothing_that_is_learnt():
    cells = {cell.row: cell.config for cell in PARITY.cells(seeds=1)}
    fast, plain = cells["fast"], cells["plain"]
    assert fast.method == plain.method == "extrinsic"
    assert fast.ppo.cuda_graphs
    assert not plain.ppo.cuda_graphs
    assert (fast.env.groups, plain.env.groups) == (4, 1)
    same = replace(plain, ppo=replace(plain.ppo, precision=fast.ppo.precision, cuda_graphs=True), env=fast.env)
    assert replace(same, control=fast.control) == fast  # `extrinsic` has no control models


def test_maps_are_learnt_from_the_same_random_games():
    cells = [cell.config for cell in MAPS.cells() if cell.column == "freeway"]
    assert len({(c.game, c.seed, c.frames, c.n_envs, c.rollout_steps, c.env) for c in cells}) == 1
    assert all(c.warmup_iterations >= c.iterations for c in cells)  # PPO never begins
    assert len({c.control for c in cells}) == len(MAPS.rows)


def test_presets_are_compared_with_the_very_runs_of_the_other_tables():
    """Row by row the method under default settings is that of `play` and of `death-atari`."""
    cells = {(cell.row, cell.column): cell.config for cell in LITERAL_AND_DEFAULT.cells(device="cuda")}
    others = {
        (cell.row, cell.column): cell.config
        for plan in (PLAY, DEATH_ATARI)
        for cell in plan.cells(device="cuda", seeds=1)
    }
    for game in LITERAL_AND_DEFAULT.columns:
        assert cells["default", game] == others["mega", game]
        assert cells["alive", game] == others["alive", game]
        for literal in ("paper", "released"):
            config = cells[literal, game]
            assert (config.n_envs, config.rollout_steps, config.env) == (128, 32, cells["default", game].env)
            preset = with_preset(TrainConfig("mega", game), f"{literal},many")
            assert replace(config, frames=preset.frames, device="auto", env=preset.env) == preset


def test_the_charge_and_the_relations_are_compared_with_the_same_mega():
    first = {cell.row: cell.config for cell in DEATH_ATARI.cells(seeds=1) if cell.column == "pong"}
    mega, uncharged = first["mega"], first["mega without the charge"]
    assert mega.episodic
    assert mega.reward.end_takes_all
    assert replace(uncharged, reward=mega.reward) == mega
    assert replace(uncharged.reward, end_takes_all=True) == mega.reward
    relations = {cell.row: cell.config for cell in ATARI_RELATIONS.cells() if cell.column == "pong"}
    assert relations["mega"] == mega
    assert len(relations) == 3
    for config in relations.values():
        assert replace(config, control=mega.control) == mega


RECORDS = Path(__file__).parents[3] / "results" / "experiments"


@pytest.mark.parametrize("folder", sorted(path for path in RECORDS.iterdir() if path.is_dir()), ids=lambda p: p.name)
def test_every_record_is_that_of_a_run_of_its_experiment(folder):
    """Defaults, presets and rows go on changing; what was recorded under them does not, and finds its place."""
    cells = EXPERIMENTS[folder.name].cells()
    every = {cell.name: cell for one in cells for cell in (one, one.before) if cell is not None}
    done = [name for name, cell in every.items() if runner.is_done(folder, cell)]
    assert sorted(path.stem for path in folder.glob("*.json")) == sorted(done)


def test_all_of_the_maps_are_recorded():
    assert [cell.name for cell in MAPS.cells() if not runner.is_done(RECORDS / "maps", cell)] == []


def test_audits_are_kept_in_the_records_and_tabulated(tmp_path, monkeypatch):
    monkeypatch.setattr(audits, "audit_run", partial(audit_run, lags=4, frames=12, episodes=2))
    cell = tiny("default", "mega", 0)
    runs, results = tmp_path / "runs", tmp_path / "results"
    assert runner.run_all([cell], runs, results, 1, str) == []
    said: list[str] = []
    assert audits.audit_all([cell], runs, results, said.append) == []
    assert said[0].startswith("1 of 1  default-on-mini-breakout-s0: direct control")
    record = Record.read(runner.record_path(results, cell))
    assert record.finished
    assert record.audit["policy"] == "random"
    assert record.audit["lags"] == 4
    assert audits.audit_all([cell], runs, results, said.append) == []
    assert len(said) == 1

    plan = replace(MAPS, rows={"default": MAPS.rows["default"]}, columns={"mini-breakout": MAPS.columns["pong"]})
    text = markdown(plan, [cell], results)
    assert f"| direct, AUROC | default | {record.audit['scores']['direct_auroc']['mean']:.3f} [" in text


def test_runs_that_are_made_at_once_share_the_truth_of_their_game(tmp_path):
    cells, runs, results = [tiny(row, "mega", 0) for row in ("one", "other")], tmp_path / "runs", tmp_path / "results"
    short = ("--lags", "4", "--frames", "12", "--episodes", "2")
    assert runner.run_all(cells, runs, results, 2, str, audit=short, truth=tmp_path / "truth") == []
    [kept] = (tmp_path / "truth").iterdir()
    found = [Record.read(runner.record_path(results, cell)).audit for cell in cells]
    assert [Path(runs / cell.name / audit["truth"]).resolve() for cell, audit in zip(cells, found, strict=True)] == [
        kept.resolve()
    ] * 2
    assert found[0]["scores"] == found[1]["scores"]  # the same run twice, on the same truth


def test_a_run_too_short_for_a_score_is_recorded_for_its_audit_alone(tmp_path):
    cell, said, short = tiny("one", "mega", 0, frames=32), list[str](), ("--lags", "4", "--frames", "12")
    places = [cell], tmp_path / "runs", tmp_path / "results", 1, said.append
    assert runner.run_all(*places) == [cell]
    assert "has not finished a single game" in said[-1]
    assert runner.run_all(*places, audit=(*short, "--episodes", "2")) == []
    assert "no game finished" in said[-1]
    record = Record.read(runner.record_path(tmp_path / "results", cell))
    assert record.score is None
    assert record.audit["scores"]["direct_auroc"]["mean"] is not None
    assert scores_of([cell], tmp_path / "results") == {}
    assert audits_of([cell], tmp_path / "results")
    replace(record, finished=False).write(runner.record_path(tmp_path / "results", cell))
    assert not audits_of([cell], tmp_path / "results")


def test_audits_of_several_seeds_are_averaged_and_places_with_fewer_say_so(monkeypatch):
    def audit(mean, low=0.0):
        one = {"direct_auroc": {"mean": mean, "low": low, "high": 1.0, "frames": 9}}
        return {"scores": one, "controls": {"untrained": one}}

    found = {("default", "two"): [audit(0.6), audit(0.8)], ("default", "one"): [audit(0.5, low=0.25)]}
    monkeypatch.setattr(table, "audits_of", lambda cells, results: found)
    columns = dict.fromkeys(("two", "one", "none"), MAPS.columns["pong"])
    plan = replace(MAPS, rows={"default": MAPS.rows["default"]}, columns=columns, seeds=2)
    lines = markdown(plan, [tiny("default", "mega", 0)], Path()).splitlines()
    numbers = "0.700 [0.600, 0.800] | 0.500 [0.250, 1.000], 1 seed | - |"
    assert f"| direct, AUROC | default | {numbers}" in lines
    assert f"| direct, AUROC | untrained | {numbers}" in lines
    assert "2 seeds" in lines[-1]


def test_the_table_of_all_games_has_those_of_the_paper_and_keeps_those_tuned_on_apart():
    games = set(ALL_MAPS.columns)
    assert games > set(PAPER_GAMES) | {"montezuma_revenge", "pitfall", "freeway", "space_invaders", "assault", "boxing"}
    assert set(ALL_MAPS.tuned_on) == {"pong", "breakout", "demon_attack", "freeway", "seaquest"}
    assert set(ALL_MAPS.rows) == {"default", "information", "things", "released", "paper", "paper, batches of 256"}


def test_the_maps_of_all_games_are_those_of_the_present_default_and_are_audited_on_one_truth_a_game():
    made = {cell.row: cell.config for cell in ALL_MAPS.cells() if cell.column == "asterix"}
    present = with_preset(TrainConfig("mega", "asterix"), "many")
    default = made["default"].control
    assert default == replace(present.control, background_frames=made["default"].frames)
    information = made["information"].control
    assert information.adm == replace(default.adm, direct="information")
    assert information.rtm == default.rtm
    assert all(config.warmup_iterations >= config.iterations for config in made.values())  # PPO never begins
    plan = Plan()
    asked = [question(config, plan, {}) for config in (*made.values(), TrainConfig("mega", "asterix"))]
    assert asked == asked[:1] * 7  # the last is that of `megareward truth`


def test_the_table_of_all_games_has_means_of_both_kinds_and_how_far_each_is_from_its_untrained_models():
    def one(mean, frames=100):
        return {"mean": mean, "low": mean, "high": mean, "frames": frames}

    def audit(mean, untrained, frames=100):
        row = {"untrained": one(untrained), "uniform": one(0.5), "change": one(0.5), "seen": one(1.0)}
        names = ("direct_auroc", "g_auroc", "g_spearman", "movers_auroc", "relation_auroc")
        controls = {name: dict.fromkeys(names, value) for name, value in row.items()}
        return {"scores": dict.fromkeys(names, one(mean, frames)), "controls": controls}

    found = {
        ("default", "pong"): audit(0.9, 0.5),
        ("default", "asterix"): audit(0.8, 0.6),
        ("default", "boxing"): audit(0.6, 0.6),
        ("default", "assault"): audit(0.1, 0.6, frames=2),
        ("paper", "asterix"): audit(0.7, 0.4),
    }
    lines = games_markdown(ALL_MAPS, found).splitlines()
    assert "| pong | 0.900 (80%) | - | 0.500 | 0.500 | 0.500 | 1.000 |" in lines
    assert "| asterix | 0.800 (50%) | 0.700 (50%) | 0.600 | 0.500 | 0.500 | 1.000 |" in lines
    assert "| assault | - | - | 0.600 | 0.500 | 0.500 | 1.000 |" in lines  # two frames say nothing
    [mean, *_] = [line for line in lines if line.startswith("| **mean, not tuned on**")]
    assert mean.startswith("| **mean, not tuned on** | 0.700 [0.600, 0.800] of 2 | 0.700 of 1 |")
    tuned_on = "| **mean, tuned on** | 0.900 of 1 | - | 0.500 of 1 | 0.500 of 1 | 0.500 of 1 | 1.000 of 1 |"
    assert lines.index(tuned_on) < lines.index(mean)
    assert lines[-1].endswith("Not begun yet: information, things, released, paper, batches of 256.")


def test_a_run_that_is_gone_cannot_be_audited(tmp_path):
    cell = tiny("default", "mega", 0)
    record_of_config(to_dict(cell.config)).write(runner.record_path(tmp_path, cell))
    assert audits.audit_all([cell], tmp_path / "runs", tmp_path, str) == [cell]


def test_words_choose_runs():
    names = {cell.name for cell in matching(MINI.cells(), "rnd-on,pong,s1")}
    assert names == {"rnd-on-mini-pong-s1", "rnd-on-mini-pong-tv-s1"}
    assert {cell.name for cell in matching(MINI.cells(), "rnd-on,not:tv,pong,s1")} == {"rnd-on-mini-pong-s1"}
    some = {cell.name for cell in matching(MINI.cells(), "rnd-on/count,pong,not:tv/s0/s1")}
    assert some == {"rnd-on-mini-pong-s2", "count-on-mini-pong-s2"}


def tiny(row: str, method: str, seed: int, frames: int = 600) -> Cell:
    config = with_preset(TrainConfig(method, "mini-breakout", frames=600, seed=seed, device="cpu"), "debug")
    return Cell(row, "mini-breakout", replace(config, frames=frames))


def test_what_is_done_is_not_done_again_and_what_failed_is_named(tmp_path, monkeypatch):
    cells = [tiny("a", "random", 0), tiny("b", "random", 1)]
    said: list[str] = []
    assert runner.run_all(cells, tmp_path / "runs", tmp_path / "results", 2, said.append) == []
    records = [Record.read(runner.record_path(tmp_path / "results", cell)) for cell in cells]
    assert [record.seed for record in records] == [0, 1]
    assert all(record.finished and record.provenance["commit"] for record in records)

    monkeypatch.setattr(runner.sys, "executable", "/bin/false")  # whatever runs now fails
    assert runner.run_all(cells, tmp_path / "runs", tmp_path / "results", 2, said.append) == []
    assert said[-1].startswith("2 of 2 runs are done; 0 to go")
    more = tiny("c", "random", 2)
    assert runner.run_all([*cells, more], tmp_path / "runs", tmp_path / "results", 1, said.append) == [more]
    assert "status 1" in said[-1]
    other = replace(cells[0], config=replace(cells[0].config, frames=900))
    assert runner.run_all([other], tmp_path / "runs", tmp_path / "results", 1, said.append) == [other]
    assert "holds a run of other settings" in said[-1]


@pytest.mark.parametrize(("asked", "threads"), [(None, "1"), ("3", "3")])
def test_a_run_has_one_thread_unless_the_environment_asks_for_more(monkeypatch, tmp_path, asked, threads):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if asked:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
    show = tmp_path / "show"
    show.write_text("#!/bin/sh\necho $OMP_NUM_THREADS\n")
    show.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(show))
    with open(tmp_path / "log", "w+") as log:
        assert runner.run_command(log, "resume", "somewhere") == ""
    assert (tmp_path / "log").read_text() == f"{threads}\n"


SWEEP = """
from tests.unit.experiments.test_experiments import runner, tiny
from pathlib import Path
failed = runner.run_all([tiny("a", "random", 0, frames=FRAMES)], Path("PLACE/runs"), Path("PLACE/results"), 1)
raise SystemExit(len(failed))
"""


def sweep(place: Path, frames: int) -> subprocess.Popen:
    code = SWEEP.replace("PLACE", str(place)).replace("FRAMES", str(frames))
    return subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[3])


def at_work_on(place: Path) -> list[str]:
    """Processes that were told this path."""
    commands = [file.parent for file in Path("/proc").glob("[0-9]*/cmdline") if str(place) in text_of(file)]
    return [process.name for process in commands]


def text_of(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:  # it has ended
        return ""


def wait_until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_nobody_goes_on_training_after_a_sweep_was_killed_and_the_next_one_goes_on(tmp_path):
    parent = sweep(tmp_path, frames=10**9)
    metrics = tmp_path / "runs" / "a-on-mini-breakout-s0" / "metrics.jsonl"
    wait_until(metrics.exists)
    parent.kill()
    parent.wait()
    wait_until(lambda: not at_work_on(tmp_path))
    lines = len(metrics.read_text().splitlines())
    again = sweep(tmp_path, frames=10**9)
    wait_until(lambda: len(metrics.read_text().splitlines()) > lines)
    again.kill()
    again.wait()
    wait_until(lambda: not at_work_on(tmp_path))


def test_a_run_that_was_begun_on_another_device_goes_on_where_the_sweep_trains(tmp_path):
    cell = tiny("a", "random", 0)
    job = runner.Job(cell, tmp_path, tmp_path / "results")
    create(cell.config, job.path)
    folder = RunFolder.open(job.path)
    config = folder.record()["config"]
    folder.rewrite(folder.record() | {"config": config | {"device": "cuda"}})  # as a copy from a GPU says
    assert runner.do_job(job) == ""
    assert runner.record_of(tmp_path / "results", cell).provenance["device"] == "cpu"


def test_two_sweeps_at_once_make_each_run_once(tmp_path):
    sweeps = [sweep(tmp_path, frames=600) for _ in range(2)]
    assert [process.wait(timeout=120) for process in sweeps] == [0, 0]
    record = Record.read(tmp_path / "results" / "a-on-mini-breakout-s0.json")
    assert record.finished
    assert len(record.processes) == 1


def test_a_sweep_that_waits_for_another_can_be_stopped(tmp_path):
    cell, stop = tiny("a", "random", 0), Event()
    stop.set()
    assert runner.do_job(runner.Job(cell, tmp_path, tmp_path / "results"), stop) == "another process is at it"
    with open(tmp_path / cell.name / "log.txt") as held, open(tmp_path / cell.name / "log.txt") as other:
        assert runner.is_our_turn(held, Event())
        Timer(0.5, stop.set).start()
        stop.clear()
        assert not runner.is_our_turn(other, stop)


def test_games_that_were_played_before_a_sweep_was_stopped_are_not_played_again(tmp_path):
    cell = tiny("a", "random", 0)
    assert runner.do_job(runner.Job(cell, tmp_path, tmp_path / "results", whole_games=2)) == ""
    runner.record_path(tmp_path / "results", cell).unlink()
    assert runner.do_job(runner.Job(cell, tmp_path, tmp_path / "results", whole_games=2)) == ""
    assert len(runner.record_of(tmp_path / "results", cell).evaluations) == 1


def test_a_record_is_of_a_cell_if_all_settings_it_knows_are_the_same(tmp_path):
    cell = tiny("a", "mega", 0)
    config = json.loads(json.dumps(to_dict(cell.config)))
    elsewhere = {**config, "device": "cuda", "checkpoint_minutes": 9.0, "env": {**config["env"], "threads": 3}}
    execution = {**config["control"], "execution": {**config["control"]["execution"], "bf16": "on", "dense": "off"}}
    computed = {**config, "control": execution}
    older = {**config, "control": {name: value for name, value in config["control"].items() if name != "latent"}}
    changed = {**config, "control": {**config["control"], "H": 7}}
    newer = {**config, "unheard_of": 1}
    same = [(recorded, True) for recorded in (config, elsewhere, computed, older)]
    for recorded, expected in (*same, (changed, False), (newer, False)):
        record_of_config(recorded).write(runner.record_path(tmp_path, cell))
        assert runner.is_done(tmp_path, cell) == expected
    record_of_config(config, finished=False).write(runner.record_path(tmp_path, cell))
    assert not runner.is_done(tmp_path, cell)


@pytest.mark.parametrize(
    ("method", "change", "expected"),
    [
        ("extrinsic", {"g_channel": "auto"}, True),  # it never shows g
        ("extrinsic", {"g_channel": "yes"}, False),
        ("extrinsic", {"control": {"H": 7}, "warmup_steps": 7}, True),
        ("rnd", {"g_channel": "auto"}, False),
        ("rnd", {"control": {"H": 7}}, True),
        ("rnd", {"warmup_steps": 7}, False),  # it warms up as long as mega does
        ("dir", {"control": {"H": 7}}, False),
        ("dir", {"warmup_steps": 7}, False),
        ("mega", {"n_envs": 6}, False),
    ],
)
def test_settings_of_control_and_of_the_warm_up_bear_on_a_run_only_if_it_has_them(method, change, expected):
    cell = tiny("a", method, 0)
    config = json.loads(json.dumps(to_dict(cell.config)))
    assert (config["g_channel"], config["warmup_steps"]) == ("no", 24)
    assert runner.is_of(config, cell)
    assert runner.is_of({**config, **change}, cell) == expected


def test_a_record_of_the_first_version_is_of_the_cell_that_has_its_settings():
    """It had the number of environments among PPO's settings, and the warm-up among those of control."""
    cell = tiny("a", "mega", 0)
    config = json.loads(json.dumps(to_dict(cell.config)))
    n_envs, rollout, warmup = (config.pop(name) for name in ("n_envs", "rollout_steps", "warmup_steps"))
    config["ppo"] |= {"n_envs": n_envs, "rollout": rollout}
    config["control"]["warmup_steps"] = warmup
    assert config["control"].pop("background_frames") == max(warmup, config["control"]["normalise_frames"])
    assert runner.is_of(config, cell)
    for part, name in (("ppo", "n_envs"), ("ppo", "rollout"), ("control", "warmup_steps")):
        assert not runner.is_of({**config, part: {**config[part], name: 6}}, cell)


def test_the_last_word_of_a_log_is_no_progress_line(tmp_path):
    log = tmp_path / "log.txt"
    log.write_text("1% done\r2% done\rmegareward: it broke.\n\n")
    assert runner.last_line(log) == "megareward: it broke."
    log.write_text("")
    assert runner.last_line(log) == "it said nothing"


def test_the_table_has_means_intervals_and_gaps(tmp_path):
    experiment = replace(MINI, rows={"random": MINI.rows["random"], "mega": MINI.rows["mega"]}, seeds=2)
    for cell in experiment.cells():
        if cell.config.game == "mini-pong" and cell.row == "mega" and cell.column == "mini-pong":
            record = record_of_config(to_dict(cell.config), score=1.0 + cell.config.seed)
            record.write(runner.record_path(tmp_path, cell))
    text = markdown(experiment, experiment.cells(), tmp_path)
    assert "| mega | 1.50 [1.00, 2.00] | - |" in text
    assert "| random | - |" in text
    text = markdown(replace(experiment, is_long=True), experiment.cells(), tmp_path)
    assert "| mega | 1.50 [1.00, 2.00] | - |" in text
    assert "random" not in text
    assert "Rows not begun yet: 1." in text


def test_whole_games_have_a_table_of_their_own_seed_by_seed(tmp_path):
    rows = {name: MINI.rows[name] for name in ("random", "mega")}
    experiment = replace(MINI, rows=rows, seeds=1, seeds_of={"mega": 2}, whole_games=3)
    text = markdown(experiment, experiment.cells(), tmp_path)
    assert "one seed, which says nothing about spread (mega: 2 seeds)." in text
    assert "whole games" not in text

    def played(scores: list[float], cut: int, greedy: bool = False) -> dict[str, Any]:
        return {"frames": 9, "seed": 1, "greedy": greedy, "scores": scores, "cut": cut}

    for cell in experiment.cells():
        if cell.row != "mega" or cell.column != "mini-pong":
            continue
        record = record_of_config(to_dict(cell.config), score=1.0)
        own = [played([1.0, 2.0, 3.0], 0), played([50.0], 0, greedy=True)] if cell.config.seed else [played([7.0], 1)]
        replace(record, evaluations=[played([99.0], 0), *own]).write(runner.record_path(tmp_path, cell))
    found = markdown(experiment, experiment.cells(), tmp_path).splitlines()
    start = found.index(f"| mini-games, whole games | {' | '.join(experiment.columns)} |")
    assert found[start + 2] == f"| random |{' - |' * len(experiment.columns)}"
    assert found[start + 3] == f"| mega | 7.0 (1 cut); 2.0 +- 0.6 |{' - |' * (len(experiment.columns) - 1)}"
    assert found[start + 5].startswith("3 games after training")
    other = markdown(replace(experiment, whole_games=0), experiment.cells(), tmp_path)
    assert "whole games |" not in other


def test_rooms_and_metrics_are_in_the_table(tmp_path):
    experiment = replace(MINI, rows={"rnd": MINI.rows["rnd"], "mega": MINI.rows["mega"]}, seeds=1, whole_games=2)
    experiment = replace(experiment, metrics=("g-rnd/novelty_inside", "g-rnd/novelty_outside"))
    [cell, *_] = (cell for cell in experiment.cells() if (cell.row, cell.column) == ("rnd", "mini-pong"))
    own = {"frames": 9, "seed": 1, "greedy": False, "scores": [1.0, 1.0], "cut": 0, "rooms": [[1], [1, 4]]}
    curves = {"g-rnd/novelty_inside": [[1, 0.5], [2, 0.25], [3, 0.125]]}
    record = replace(record_of_config(to_dict(cell.config), score=1.0), evaluations=[own], metrics=curves)
    record.write(runner.record_path(tmp_path, cell))
    found = markdown(experiment, experiment.cells(), tmp_path).splitlines()
    gaps = " - |" * (len(experiment.columns) - 1)
    assert f"| rnd | 1.0 +- 0.0, 1.5 rooms (2 in all) |{gaps}" in found
    assert any(line.endswith("how many were visited in all games together.") for line in found)
    start = found.index(f"| mini-games, g-rnd/novelty_inside | {' | '.join(experiment.columns)} |")
    assert found[start + 2] == f"| rnd | 0.5 > 0.25 > 0.125 |{gaps}"
    assert found[start + 3] == ""
    assert not any("novelty_outside" in line for line in found)


def test_the_table_says_how_many_seeds_were_asked_for(tmp_path, capsys):
    words = ["--table", "--frames", "6k", "--results", str(tmp_path)]
    assert main(["experiment", "death", *words]) == 0
    assert "after 6,000 frames, mean over 5 seeds" in capsys.readouterr().out
    assert main(["experiment", "death", *words, "--seeds", "1"]) == 0
    assert "after 6,000 frames, one seed" in capsys.readouterr().out


def test_many_runs_are_not_begun_unasked_where_no_record_is(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = []
    monkeypatch.setattr(make, "run_jobs", lambda jobs, *others, **more: made.append(len(jobs)) or [])
    assert main(["experiment", "death"]) == 2
    assert "is not in this folder" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert main(["experiment", "death", "--only", "mega,mini-pong", "--seeds", "1"]) == 0  # few
    assert main(["experiment", "death", "--yes"]) == 0
    assert main(["experiment", "death", "--results", "mine"]) == 0
    assert made[0] < made[1] == made[2]


def test_several_experiments_are_one_queue_in_which_no_run_stands_twice(tmp_path, capsys, monkeypatch):
    """The default of `presets` is mega-reward in `play`, and both want 30 whole games of it."""
    made: list[list[str]] = []
    monkeypatch.setattr(make, "run_jobs", lambda jobs, *others, **more: made.append([job.name for job in jobs]) or [])
    words = ["--only", "mega-on/default-on/released-on,pong", "--results", str(tmp_path)]
    assert main(["experiment", "play,presets,play", *words]) == 0
    assert main(["experiment", "presets", *words]) == 0
    assert made == [
        ["play/mega-on-pong-s0", "presets/released-on-pong-s0"],
        ["presets/released-on-pong-s0", "presets/default-on-pong-s0"],
    ]
    assert {path.parent.name for path in tmp_path.glob("*/table.md")} == {"play", "presets"}
    assert main(["experiment", "play,presets", "--only", "nonsense"]) == 2
    assert "matches no run of play or presets" in capsys.readouterr().err


def test_when_the_time_is_over_runs_save_themselves_and_no_more_are_begun(tmp_path):
    cells, said = [tiny(row, "random", 0, frames=10**9) for row in ("a", "b", "c")], []
    jobs = [runner.Job(cell, tmp_path / "runs", tmp_path / "results") for cell in cells]
    begun = time.monotonic()
    left = runner.run_jobs(jobs, 2, said.append, minutes=1 / 60)
    assert time.monotonic() - begun < 60
    assert sorted(job.cell.row for job in left) == ["a", "b"]
    assert all("stopped after 0.01" in line or "stopped after 0.02" in line for line in said[1:])
    assert all(newest_state(RunFolder.open(job.path).checkpoints)["frames"] > 0 for job in jobs[:2])
    assert not jobs[2].path.exists()
    assert list(runner.while_there_is_time(jobs, minutes=1e-9)) == []
    longest = [job.minutes for job in runner.while_there_is_time(jobs, minutes=5)]
    assert 5 > longest[0] > longest[1] > longest[2] > 4.9


def test_a_typo_is_refused_with_a_hint(capsys):
    assert main(["experiment", "death", "--minutes", "0"]) == 2
    assert "--minutes is 0; it must be above 0." in capsys.readouterr().err
    assert main(["experiment", "mini-game"]) == 2
    assert "Did you mean mini-games" in capsys.readouterr().err
    assert main(["experiment", "forms", "--only", "nonsense"]) == 2
    assert "matches no run of forms" in capsys.readouterr().err
