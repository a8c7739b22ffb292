"""Experiments of the paper's second half: what their runs are, and that a run is made after the one it starts from."""

import json
from dataclasses import replace

from megareward.experiments import runner
from megareward.experiments.plans import EXPERIMENTS, Cell
from megareward.experiments.table import markdown
from megareward.experiments.with_score import NOISE_HARD, NOISE_MINI, NOISE_STRENGTHS, PRETRAINING, PRETRAINING_MINI
from megareward.runs.record import Record
from megareward.training.config import TrainConfig, to_dict
from megareward.training.presets import with_preset
from megareward.training.start_from import START
from tests.unit.records import record_of_config


def test_they_are_on_the_list():
    for experiment in (NOISE_STRENGTHS, NOISE_HARD, NOISE_MINI, PRETRAINING, PRETRAINING_MINI):
        assert EXPERIMENTS[experiment.name] is experiment


def test_noise_is_borne_in_rnds_own_setting():
    cells = {(cell.row, cell.column): cell.config for cell in NOISE_STRENGTHS.cells()}
    config = cells["G-RND", "noise 0.3"]
    assert (config.game, config.method, config.noise.std) == ("montezuma_revenge", "g-rnd", 0.3)
    assert config.with_score
    assert (config.reward.episodic, config.env.sticky, config.env.groups) == ("no", 0.25, 4)
    assert replace(cells["O-RND", "noise 0.3"], noise=cells["O-RND", "noise 0"].noise) == cells["O-RND", "noise 0"]
    assert {cell.config.noise.std for cell in NOISE_HARD.cells()} == {0.3}
    assert config.control.latent.flash == 1.0  # noise is no flash
    mini = {(cell.row, cell.column): cell.config for cell in NOISE_MINI.cells(seeds=1)}
    assert mini["O-RND", "mini-breakout tv"].noise.tv == "always"
    assert not mini["O-RND", "mini-breakout tv"].uses_score
    assert mini["G-RND, true maps", "mini-demon noise 0.3"].uses_oracle
    assert mini["O-RND", "mini-breakout"].episodic
    assert not mini["M-RND, nothing ends", "mini-breakout"].episodic
    assert mini["G-RND, untrained maps, nothing ends", "mini-breakout tv"].control.passes == 0


def test_half_of_the_budget_is_without_the_score():
    for cell in [*PRETRAINING.cells(), *PRETRAINING_MINI.cells(seeds=2)]:
        config, before = cell.config, cell.before
        alone = ("random", "scratch", "scratch, twice as long", "morel", "oomdp")
        assert (before is None) == (cell.row in alone)
        if cell.row in ("morel", "oomdp"):  # random play first, in the same run
            assert 2 * config.warmup_steps * config.env.frame_skip == config.frames
        assert config.uses_score == (cell.row != "random")
        if before is not None:
            assert before.config.hides_score
            assert not before.config.uses_score
            assert (before.config.frames, before.config.seed) == (config.frames, config.seed)
            assert (before.config.game, before.config.policy) == (config.game, config.policy)
            assert config.start_from == before.name


def test_a_place_in_the_table_knows_what_its_runs_start_from():
    every = {cell.name: cell for cell in PRETRAINING_MINI.cells()}
    for row in PRETRAINING_MINI.rows:
        cells = PRETRAINING_MINI.cells_of(row, "mini-pong")
        assert len(cells) == 5
        assert [every[cell.name] for cell in cells] == cells


def tiny(method: str, before: Cell | None = None) -> Cell:
    config = with_preset(TrainConfig(method, "mini-breakout", frames=600, device="cpu"), "debug")
    config = replace(config, frames=600, start_from=before.name if before else None)
    return Cell(f"row of {method}", "mini-breakout", config, before)


def test_a_run_is_made_after_the_one_it_starts_from_and_only_once(tmp_path, monkeypatch):
    cell = tiny("extrinsic", before=tiny("rnd"))
    said: list[str] = []
    runs, results = tmp_path / "runs", tmp_path / "results"
    assert runner.run_all([cell], runs, results, 1, said.append) == [], said
    about = json.loads((runs / cell.name / "config.json").read_text())["start"]
    assert (about["method"], about["run"]) == ("rnd", str(runs / cell.before.name))
    assert (runs / cell.name / START).exists()
    assert Record.read(runner.record_path(results, cell.before)).finished
    monkeypatch.setattr(runner.sys, "executable", "/bin/false")  # whatever runs now fails
    assert runner.run_all([cell], runs, results, 1, said.append) == []
    other = tiny("extrinsic", before=tiny("alive"))
    assert runner.run_all([replace(other, column="elsewhere")], runs, results, 1, said.append) != []
    assert "row-of-alive-on-mini-breakout-s0 ended with status 1" in said[-1]


def test_the_table_has_the_improvement_of_equation_13(tmp_path):
    plan = replace(PRETRAINING_MINI, columns={"mini-pong": PRETRAINING_MINI.columns["mini-pong"]}, seeds=2)
    scores = {"random": (-3.0, -3.0), "scratch": (0.0, 2.0), "after mega": (3.0, 5.0)}
    for cell in plan.cells():
        if cell.row in scores:
            record = record_of_config(to_dict(cell.config), score=scores[cell.row][cell.config.seed])
            record.write(runner.record_path(tmp_path, cell))
    text = markdown(plan, plan.cells(), tmp_path)
    assert "| S_Improve (Eq. 13) | mini-pong |" in text
    assert "| after mega | 175% [150, 200] |" in text  # (4 + 3) / (1 + 3)
    assert "| after rnd | - |" in text
