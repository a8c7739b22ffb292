"""Every table and figure of the paper: which runs they need, in which order, and the page made of their records."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from megareward.analysis.results import LEDGER
from megareward.cli import main
from megareward.experiments import runner
from megareward.experiments.plans import DEATH, Cell
from megareward.paper import builders, items, page, queue, work
from megareward.paper.items import BUDGETS, ITEMS
from megareward.paper.recorded import Recorded, ours
from megareward.paper.view import View
from megareward.runs.record import Record
from megareward.training.config import bearing, to_dict
from tests.unit.records import record_of_config

ROOT = Path(__file__).parents[3]
SMOKE = BUDGETS["smoke"]


def write(cell: Cell, folder: Path, score: float = 1.0, **more) -> Path:
    return record_of_config(to_dict(cell.config), score=score, **more).write(runner.record_path(folder, cell))


# Which runs ----------------------------------------------------------------------------------------------------------


def test_every_item_of_the_paper_is_listed(capsys):
    assert main(["paper"]) == 0
    lines = capsys.readouterr().out.splitlines()
    wanted = "play more-baselines case-study ex-ppo human pretraining noise masked-rnd grid components"
    assert [line.split()[0] for line in lines] == [*wanted.split(), "running-time", "failures"]


@pytest.mark.parametrize("budget", ["smoke", "full"])
def test_seed_0_of_every_run_comes_first_and_short_runs_before_long_ones(budget, tmp_path):
    jobs = queue.jobs_of(ITEMS.values(), BUDGETS[budget], tmp_path, tmp_path)
    order = [(job.cell.config.seed, job.cell.config.frames) for job in jobs]
    assert order == sorted(order)
    assert len({job.name for job in jobs}) == len(jobs)
    if budget == "smoke":
        settings = {json.dumps(bearing(to_dict(job.cell.config)), sort_keys=True) for job in jobs}
        assert len(settings) == len(jobs) > 60


def test_a_run_that_several_items_need_has_one_place_whichever_of_them_was_asked_for(tmp_path):
    every = queue.jobs_of(ITEMS.values(), SMOKE, tmp_path, tmp_path)
    for name in ("components", "failures", "case-study"):
        chosen = queue.jobs_of([ITEMS[name]], SMOKE, tmp_path, tmp_path)
        assert 0 < len(chosen) < len(every)
        assert all(job in every for job in chosen)
    played = {job.name for job in queue.jobs_of([ITEMS["components"]], SMOKE, tmp_path, tmp_path)}
    assert "paper-play-smoke/mega-on-mini-road-s0" in played
    maps = {job.cell.row: job.audit for job in queue.jobs_of([ITEMS["failures"]], SMOKE, tmp_path, tmp_path)}
    assert [maps.pop(row) for row in ("random", "extrinsic")] == [None, None]  # they have no maps
    assert maps == dict.fromkeys(("mega", "information", "things", "as printed"), SMOKE.audit)


def test_a_typo_is_refused_with_a_hint(capsys):
    assert main(["paper", "run", "paly"]) == 2
    assert "Did you mean play" in capsys.readouterr().err
    assert main(["paper", "biuld"]) == 2
    assert main(["paper", "run", "play", "--unit", "nonsense"]) == 2


def test_every_item_has_runs_at_every_scale():
    for item in ITEMS.values():
        assert item.experiments.keys() == items.SCALES.keys(), item.name


def test_pretraining_is_made_before_what_starts_from_it(tmp_path):
    jobs = {job.name: job for job in queue.jobs_of([ITEMS["pretraining"]], SMOKE, tmp_path, tmp_path)}
    after = jobs["paper-pretraining-smoke/after-mega-on-mini-breakout-s0"].cell
    assert (after.before.config.method, after.before.config.frames) == ("mega", items.plans.SMOKE_FRAMES)
    assert after.config.start_from == after.before.name
    scratch = jobs["paper-play-smoke/extrinsic-on-mini-breakout-s0"].cell  # the run that other tables have
    assert scratch.before is None


# What is recorded ----------------------------------------------------------------------------------------------------


def test_a_run_is_found_by_its_settings_wherever_it_is_recorded(tmp_path):
    play = items.plans.PLAY["mini"]
    [cell] = [c for c in DEATH.cells() if c.name == "mega-on-mini-pong-s1"]
    write(cell, tmp_path / "death")
    [same] = [c for c in play.cells() if c.name == "mega-on-mini-pong-s1"]
    [other] = [c for c in play.cells() if c.name == "mega-on-mini-pong-s2"]
    recorded = Recorded([tmp_path])
    assert [found.path.parent.name for found in recorded.find(same)] == ["death"]
    assert list(recorded.find(other)) == []


def test_a_setting_younger_than_the_record_is_the_usual_one(tmp_path):
    """Such a record is no run with relations by sight, which came later."""
    [local] = [c for c in items.plans.PLAY["mini"].cells() if c.name == "mega-on-mini-breakout-s0"]
    models = replace(local.config.control, rtm=replace(local.config.control.rtm, model="pairs"))
    plain = replace(local, config=replace(local.config, control=models))
    config = to_dict(plain.config)
    for name in ("model", "local_features", "local_sources"):
        del config["control"]["rtm"][name]
    record_of_config(config).write(tmp_path / "old.json")
    recorded = Recorded([tmp_path])
    assert len(list(recorded.find(plain))) == 1
    assert list(recorded.find(local)) == []


def test_runs_of_another_budget_or_of_other_settings_are_shown_and_marked(tmp_path):
    full, small = items.plans.PLAY["80M"], items.plans.PLAY["10M"]
    recorded = Recorded([tmp_path])
    assert ours(recorded, full, [small], "rnd", "asterix") is None
    [cell] = small.cells_of("rnd", "asterix")
    write(cell, tmp_path, 7.0)
    view = View("play", full, (small,), Recorded([tmp_path]))
    number = view.number("rnd", "asterix", "paper/rnd")
    assert (number.value, number.spread, number.note, number.marks) == ("7", "", "1 seed, 10M", "bs")
    assert number.beside == "paper 462.3"
    for seed, score in enumerate((1.0, 2.0)):
        write(full.cells_of("rnd", "pong")[seed], tmp_path, score)
    number = View("play", full, (small,), Recorded([tmp_path])).number("rnd", "pong")
    assert (number.value, number.spread, number.note, number.marks) == ("1.5", "[1, 2]", "2 seeds, 80M", "t")
    assert view.number("mega", "asterix").value == "–"
    shorter = replace(cell, config=replace(cell.config, frames=3_000_000, game="asterix"))
    write(replace(shorter, row="mega", config=replace(shorter.config, method="rnd", seed=0)), tmp_path / "more", 3.0)
    assert View("play", small, (), Recorded([tmp_path / "more"])).number("rnd", "asterix").marks == "b"


def test_what_is_twice_as_long_is_no_run_of_any_other_length(tmp_path):
    plan = items.plans.PRETRAINING_PLANS["mini"]
    [scratch, *_] = plan.cells_of("scratch", "mini-pong")
    write(replace(scratch, config=replace(scratch.config, frames=2 * scratch.config.frames)), tmp_path)
    recorded = Recorded([tmp_path])
    assert ours(recorded, plan, (), "scratch", "mini-pong").is_other_budget
    assert not ours(recorded, plan, (), "scratch, twice as long", "mini-pong").is_other_budget
    write(replace(scratch, config=replace(scratch.config, frames=3 * scratch.config.frames)), tmp_path)
    recorded = Recorded([tmp_path])
    assert ours(recorded, plan, (), "scratch", "mini-pong")
    assert ours(recorded, plan, (), "scratch, twice as long", "mini-pong") is None


def test_nothing_is_relative_to_random_play_that_is_not_recorded(tmp_path):
    plan = items.plans.PRETRAINING_PLANS["smoke"]
    for row in ("scratch", "after mega"):
        write(plan.cells_of(row, "mini-breakout")[0], tmp_path, 2.0)
    *_, figure = builders.pretraining(View("pretraining", plan, (), Recorded([tmp_path])))
    assert figure == builders.Text(builders.NO_FIGURE)
    write(plan.cells_of("random", "mini-breakout")[0], tmp_path, 1.0)
    *_, figure = builders.pretraining(View("pretraining", plan, (), Recorded([tmp_path])))
    assert ">100%" in figure.svg


# The page ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def smoke_results(tmp_path_factory) -> Path:
    """A record of every run of the smallest budget, with made-up scores."""
    results = tmp_path_factory.mktemp("results")
    scores = {"random": 1.0, "mega": 3.0, "extrinsic": 5.0}
    for job in queue.jobs_of(ITEMS.values(), SMOKE, results, results):
        audit = {"scores": {"direct_auroc": {"mean": 0.75}, "g_auroc": {"mean": 0.875}}} if job.audit else None
        score = scores.get(job.cell.row, 2.0) + 0.5 * job.cell.config.seed
        write(job.cell, job.results, score, seconds=job.cell.config.frames / 1000, audit=audit)
        if job.picture:
            job.picture_path.write_bytes(b"a picture")
    return results


def test_a_page_of_all_records_has_nothing_missing(smoke_results, tmp_path):
    page.build(SMOKE, smoke_results, [], tmp_path)
    text = (tmp_path / "paper.md").read_text()
    sections = dict(zip(re.findall("(?m)^## (.*)$", text), re.split("(?m)^## .*$", text)[1:], strict=True))
    assert len(sections) == 1 + len(ITEMS)
    for title, body in sections.items():
        holes = [line for line in body.splitlines() if "| – " in line or "issing" in line]
        if title.startswith("Failure"):  # these have no maps
            assert all("| random |" in line or "| extrinsic |" in line for line in holes)
        else:
            assert holes == []
    for name in re.findall(r"\]\((figures/[^)]+)\)", text):
        assert (tmp_path / name).exists()
    drawn = (tmp_path / "figures" / "ex-ppo-smoke.svg").read_text()
    # Eq. 12 with means over two seeds: (3.25 - 1.25) / (5.25 - 1.25), of (3 - 1.25) / 4 and (3.5 - 1.25) / 4
    assert ">50%" in drawn
    assert "hours on mini-breakout" in text
    assert "22.2 <sup>t</sup> (1 seed, 4096; paper 34.22)" in text  # 80M frames at 1000 a second
    assert "0.875" in sections["Ablation of the grid size (supplement, figure)"]


def test_the_page_says_which_probability_and_which_mean(smoke_results):
    view = next(iter(ITEMS["play"].views(SMOKE, Recorded([smoke_results]))))[1]
    means, profiles, wins = builders.aggregated(view)
    # mega has (3 - 1.25) / 4 and (3.5 - 1.25) / 4 on both games
    assert re.search(r">Meg<.*?>0.5<", means.svg)
    assert "Meg" in profiles.svg
    assert re.search(r">random<.*?>100%<", wins.svg)
    assert re.search(r">Ex-PPO<.*?>0%<", wins.svg)


def test_a_page_without_records_marks_everything(tmp_path, capsys):
    assert main(["paper", "build", "--budget", "smoke", "--results", str(tmp_path), "--out", str(tmp_path / "p")]) == 0
    text = (tmp_path / "p" / "paper.md").read_text()
    assert "| Running time | 0 of 8 | supplement, table |" in text
    assert text.count("–") > 60


def test_the_page_is_made_without_torch_in_seconds(smoke_results, tmp_path):
    source = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "safetensors", "matplotlib"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocked())
from megareward.cli import main
sys.exit(main(["paper", "build", "--budget", "smoke", "--results", sys.argv[1], "--out", sys.argv[2]]))
"""
    begun = os.times().children_user
    subprocess.run([sys.executable, "-c", source, str(smoke_results), str(tmp_path)], check=True)
    assert os.times().children_user - begun < 15
    assert (tmp_path / "index.html").exists()


def test_the_committed_page_is_that_of_the_committed_records(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    page.build(BUDGETS["full"], BUDGETS["full"].results, [LEDGER], tmp_path)
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    committed = ROOT / "docs" / "paper-page"
    there = {path.relative_to(committed): path.read_bytes() for path in committed.rglob("*") if path.is_file()}
    assert made.keys() == there.keys(), "run megareward paper build"
    assert [name for name in made if made[name] != there[name]] == [], "run megareward paper build"


# Making the runs -----------------------------------------------------------------------------------------------------


def test_what_is_missing_is_made_once_and_the_page_shows_it(tmp_path, capsys):
    """The smallest form of `paper run --budget smoke && paper build`: one item, from an empty folder."""
    words = ["--budget", "smoke", "--results", str(tmp_path / "results")]
    runs = ["--runs", str(tmp_path / "runs")]
    assert main(["paper", "run", "case-study", *words, *runs]) == 0
    out = capsys.readouterr().out
    assert "0 of 1 runs are recorded; 1 to go." in out
    assert "megareward paper build --budget smoke" in out
    [record] = (tmp_path / "results" / "paper-case-study-smoke").glob("*.json")
    assert Record.read(record).seconds > 0
    assert record.with_suffix(".png").exists()
    assert main(["paper", "run", "case-study", *words, *runs]) == 0
    assert "1 of 1 runs are recorded; 0 to go." in capsys.readouterr().out
    assert main(["paper", "build", *words, "--out", str(tmp_path / "page")]) == 0
    assert "figures/case-study-smoke.png" in (tmp_path / "page" / "paper.md").read_text()
    assert main(["paper", "next", "case-study", *words, *runs]) == 1
    assert "Every run is recorded" in capsys.readouterr().err


def test_next_hands_out_each_run_once_and_the_unit_is_made(tmp_path, capsys, monkeypatch):
    made = []
    monkeypatch.setattr(work, "do_job", lambda job: made.append(job.name) or "")
    words = ["--budget", "smoke", "--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    units = []
    for _ in range(3):
        assert main(["paper", "next", "grid", "--claim", *words]) == 0
        units.append(capsys.readouterr().out.strip())
    grid = [f"paper-grid-smoke/{n}x{n}-on-mini-breakout-s0" for n in (2, 8)]
    assert units == ["paper-play-smoke/mega-on-mini-breakout-s0", *grid]  # 4x4 is what all others have
    assert main(["paper", "next", "grid", "--claim", *words]) == 1
    assert main(["paper", "next", "grid", "--claim", "--stale-minutes", "0", *words]) == 0
    assert capsys.readouterr().out.strip() == units[0]
    assert main(["paper", "run", "--unit", units[1], *words]) == 0
    assert made == [units[1]]


def test_a_job_that_fails_is_named_and_its_claim_is_free(tmp_path):
    [job, *_] = queue.jobs_of([ITEMS["grid"]], SMOKE, tmp_path / "runs", tmp_path / "results")
    waiting = queue.Queue([job], Recorded([]), tmp_path / "claims")

    def engine(take, done):
        assert take() == job
        assert queue.claim(tmp_path / "claims", queue.claim_name(job)) is None
        done(job, "it broke")
        assert take() is None

    said: list[str] = []
    assert work.make(waiting, 1, engine, said.append) == [job]
    assert "it broke" in said[-1]
    assert queue.claim(tmp_path / "claims", queue.claim_name(job)) is not None
