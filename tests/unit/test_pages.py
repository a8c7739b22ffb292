"""What README and docs say can be checked: tables are those of the records, files and headings they name are there,
commands they print are understood."""

import contextlib
import functools
import importlib.util
import io
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from megareward.analysis.published import published
from megareward.bench.table import markdown as speeds
from megareward.bench.table import running_times
from megareward.cli import COMMANDS, main
from megareward.experiments.plans import EXPERIMENTS
from megareward.experiments.runner import record_of
from megareward.experiments.table import markdown, scores_of
from megareward.statistics.aggregates import mean_of_games
from megareward.statistics.scores import standard_error

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "results" / "experiments"
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text() for path in [ROOT / "README.md", *ROOT.glob("docs/*.md")]}
OF_THINGS = ("shown_direct_auroc", "g_spearman", "movers_auroc")
KINDS_OF_GAMES = ("last_games", "whole_games")
RECORDED = [name for name in EXPERIMENTS if (RECORDS / name / "table.md").exists()]


def every(pattern: str, page: str) -> list[str]:
    return re.findall(pattern, PAGES[page])


def script(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tables(page: str) -> list[list[str]]:
    """The lines of every table on a page."""
    return [block.strip().splitlines() for block in every(r"(?m)(?:^\|.*\n)+", page)]


@pytest.mark.parametrize("name", RECORDED)
def test_a_table_is_that_of_its_records(name):
    experiment = EXPERIMENTS[name]
    assert (RECORDS / name / "table.md").read_text() == markdown(experiment, experiment.cells(), RECORDS / name)


@pytest.mark.parametrize(
    "name",
    [
        "mini-games",
        "forms",
        "atari",
        "death",
        "sight",
        "ladder",
        "death-atari",
        "atari-forms",
        "presets",
        "atari-relations",
        "pretraining-mini",
        "noisy-tv-mini",
    ],
)
def test_a_table_on_a_page_is_the_recorded_one(name):
    """A page may add rows, such as published scores; rows without a single run are left out there."""
    recorded = re.findall(r"(?m)(?:^\|.*\n)+", (RECORDS / name / "table.md").read_text())
    assert recorded[0].startswith(f"| {name} |")
    for lines in map(str.splitlines, recorded):
        [shown] = [table for page in PAGES for table in tables(page) if table[0] == lines[0]]
        made = [line for line in lines if not re.fullmatch(r"\| [^|]+ \|( - \|)+", line)]
        assert [line for line in shown if line in made] == made


def test_the_page_says_whether_it_is_the_form_or_the_maps():
    """The whole table of causes is long: the page has what is averaged over the games, and the probe beside it."""
    recorded = re.findall(r"(?m)(?:^\|.*\n)+", (RECORDS / "causes" / "table.md").read_text())
    averaged = [table.splitlines() for table in recorded if table.startswith("| causes, mean over the games")]
    assert averaged
    assert [table for table in averaged if table not in tables("docs/results.md")] == []
    probed = (ROOT / "results" / "probe" / "table.md").read_text()
    assert probed == script("probe_rewards").table()
    [correlation] = re.findall(r"over \d+ rewards, maps and games: (-?\d\.\d\d)", probed)
    assert probed.split("\n\n")[0].splitlines() in tables("docs/results.md")
    assert f"rank correlation {correlation}" in " ".join(PAGES["docs/results.md"].split())


@pytest.mark.parametrize(
    ("mark", "printed"),
    [
        ("bench table", lambda bench: speeds(bench)),
        ("running times", lambda bench: running_times(bench / "methods-h200.json")),
    ],
)
def test_speeds_on_the_page_are_those_of_their_records(mark, printed):
    [shown] = every(rf"(?s)<!-- {mark} -->\n(.*?)\n<!-- end -->", "docs/performance.md")
    assert shown == printed(ROOT / "results" / "bench")


def test_the_page_says_how_long_the_first_hour_was_silent():
    typed = json.loads((ROOT / "results" / "bench" / "first-hour-cpu.json").read_text())["typed"]
    longest, stopping = max(t["silence"] for t in typed), max(t["stopping"] or 0 for t in typed)
    text = " ".join(PAGES["docs/performance.md"].split())
    assert f"nothing was silent for longer than {longest:.1f} s" in text
    assert f"had saved and ended {stopping:.1f} s after Ctrl-C" in text


def test_the_page_says_how_runs_go_on_that_were_moved():
    files = sorted((ROOT / "results" / "bench").glob("moved-run-breakout-*.json"))
    runs = [run for path in files for run in json.loads(path.read_text())["runs"]]
    of_seeds = np.array(
        [[np.mean(run[who][kind]) for kind in KINDS_OF_GAMES for who in ("stayed", "moved")] for run in runs]
    )
    numbered = [*((str(seed), row) for seed, row in enumerate(of_seeds)), ("mean", of_seeds.mean(0))]
    [table] = [t for t in tables("docs/sweeps.md") if t[0].startswith("| seed | 50 games, stayed |")]
    assert table[2:] == [f"| {name} | " + " | ".join(f"{score:.2f}" for score in row) + " |" for name, row in numbered]
    ahead = of_seeds[:, 1::2] - of_seeds[:, ::2]  # (seeds, kinds)
    words = [
        f"{m:.2f} +- {e:.2f}" for m, e in zip(ahead.mean(0), ahead.std(0, ddof=1) / len(ahead) ** 0.5, strict=True)
    ]
    assert f"by {words[0]} in training and by {words[1]} in whole games" in " ".join(PAGES["docs/sweeps.md"].split())


def test_the_page_about_maps_has_the_recorded_numbers():
    """docs/audit.md prints .993 for 0.993 and calls the rows by other names."""
    rows = {
        "ours": "default",
        "ours, nothing forgets": "nothing-forgets",
        "released code": "released",
        "paper, literally": "paper",
    }
    scores = {"direct, AUROC": "direct_auroc", "g, AUROC": "g_auroc", "g, rank correlation": "g_spearman"}
    games = ("pong", "breakout", "demon_attack", "freeway", "seaquest")
    [table] = [
        t for t in tables("docs/audit.md") if t[0] == "| | | Pong | Breakout | DemonAttack | Freeway | Seaquest |"
    ]
    score, compared = "", 0
    for line in table[2:]:
        first, row, *cells = [cell.strip().replace("*", "") for cell in line.strip("|").split("|")]
        score = scores.get(first, score)
        for game, cell in zip(games, cells, strict=True):
            if row not in rows or not re.match(r"-?\.\d", cell):
                continue
            found = json.loads((RECORDS / "maps" / f"{rows[row]}-on-{game}-s0.json").read_text())["audit"]["scores"][
                score
            ]
            numbers = re.findall(r"-?\.\d+", cell)
            for number, name in zip(numbers, ("mean", "low", "high"), strict=False):
                digits = len(number.split(".")[1])
                assert float(number) == pytest.approx(found[name], abs=0.5001 * 10**-digits), (row, game, score)
                compared += 1
    assert compared > 100


def test_the_page_of_all_maps_has_the_recorded_tables_and_their_means():
    shown = tables("docs/all-maps.md")
    recorded = re.findall(r"(?m)(?:^\|.*\n)+", (RECORDS / "all-maps" / "table.md").read_text())
    assert all(block.strip().splitlines() in shown for block in recorded)
    [means] = [table for table in shown if table[0].startswith("| mean over the 22 games")]
    for line, score in zip(means[2:], ("direct", "direct among what is shown", "g", "movers"), strict=True):
        [table] = [table for table in shown if table[0].startswith(f"| all-maps: {score}, AUROC |")]
        [mean] = [own for own in table if own.startswith("| **mean, not tuned on** |")]
        of_rows = dict(zip(*([cell.strip(" *") for cell in own.split("|")] for own in (table[0], mean)), strict=True))
        names = [cell.strip(" *") for cell in means[0].split("|")][2:8]
        for name, cell in zip(names, line.split("|")[2:8], strict=True):
            numbers = re.findall(r"\.\d+", cell)
            assert numbers == re.findall(r"\.\d+", of_rows[name])[: len(numbers)], (score, name)
            assert len(numbers) == (3 if name in ("default", "information", "released", "paper") else 1)


def test_the_page_about_maps_has_the_recorded_numbers_of_things():
    [table] = [t for t in tables("docs/audit.md") if t[0].startswith("| things |")]
    columns = list(EXPERIMENTS["failure-maps"].columns)
    assert len(table) == 2 + len(columns)
    for line, column in zip(table[2:], columns, strict=True):
        name = "things-on-" + column.replace(" ", "-")
        runs = [
            json.loads(path.read_text())["audit"] for path in (RECORDS / "failure-maps").glob(f"{name}-s[0-9].json")
        ]
        assert len(runs) == 3
        scores = [np.mean([run["scores"][score]["mean"] for run in runs]) for score in OF_THINGS]
        scores.insert(2, np.mean([run["controls"]["seen"]["g_spearman"]["mean"] for run in runs]))
        scores.append(np.mean([run["controls"]["uniform"]["movers_auroc"]["mean"] for run in runs]))
        handed = [np.mean([run["scores"]["handed_to_movers"][part] for run in runs]) for part in ("true", "chance")]
        shown = [f"{score:.3f}".lstrip("0") for score in scores] + ["{:.0%} ({:.0%})".format(*handed)]
        assert [cell.strip() for cell in line.strip("|").split("|")][1:] == shown, column


def test_the_page_says_how_things_play_failure_cases():
    def mean(experiment: str, run: str) -> float:
        files = sorted((RECORDS / experiment).glob(f"{run}-s[0-9].json"))
        assert len(files) >= 3
        return float(np.mean([json.loads(path.read_text())["score"] for path in files]))

    failures = "paper-failures-mini"
    shown = {"mini-demon, flash": ("mini-demon", "flash", "mini-demon-flash")}
    shown |= {"mini-demon, camera": ("mini-demon", failures, "camera")}
    for game in ("mini-pong", "mini-breakout"):
        shown[f"{game}, camera, `--stabilise 4`"] = (game, failures, f"{game}-camera-stabilised")
    [table] = [table for table in tables("docs/audit.md") if table[0].startswith("| things at play |")]
    for line, (name, (game, experiment, option)) in zip(table[2:], shown.items(), strict=True):
        chance, without = (mean("death", f"{row}-on-{game}") for row in ("random", "things"))
        with_it = mean(experiment, f"things-on-{option}")
        its_chance = mean(experiment, f"random-on-{option}") if experiment == "flash" else chance
        score = "" if experiment == "flash" else f"{mean(experiment, f'extrinsic-on-{option}'):.2f}"
        gain = (with_it - its_chance) / (without - chance)
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells == [name, f"{without:.2f}", f"{with_it:.2f}", f"{gain:.0%}", score]


def test_the_benchmarks_rows_are_those_of_its_records():
    names = {
        "the first default, 41k frames": "mini-demon-mega-s0",
        "frame difference": "examples.control_maps:frame_difference",
        "motion mask": "examples.control_maps:motion_mask",
        "*untrained*": "untrained",
        "*rules*": "uniform",
        "*change*": "change",
        "*at most*": "seen",
    }
    scores = ("direct_auroc", "g_auroc", "movers_auroc", "relation_auroc")
    [table] = [t for t in tables("docs/benchmark.md") if t[0] == "| game | maps | direct | g | movers | where from |"]
    game, compared = "", 0
    for line in table[2:]:
        first, row, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        game = first or game
        records = json.loads((ROOT / "results" / "audit" / "benchmark" / f"{game}.json").read_text())
        found = records[-1]["controls"] | {record["run"]: record["scores"] for record in records}
        for score, cell in zip(scores, cells, strict=True):
            assert bool(cell) == (score in found[names[row]]), (game, row, score)
            for number, part in zip(re.findall(r"[01]?\.\d+", cell), ("mean", "low", "high"), strict=False):
                assert float(number) == pytest.approx(found[names[row]][score][part], abs=0.00051), (game, row, score)
                compared += 1
    assert compared > 60


@pytest.mark.parametrize("method", ["mega", "rnd"])
def test_the_long_runs_are_told_as_they_are_recorded(method):
    record = json.loads((RECORDS / "atari-long" / f"{method}-on-breakout-s0.json").read_text())
    games = record["evaluations"][-1]
    scores = np.array(games["scores"])
    mean, error = scores.mean(), scores.std(ddof=1) / len(scores) ** 0.5
    spread = f"{scores.min():g}, {scores.max():g}, {np.median(scores):g}"
    row = f"| {method} | {record['score']:.1f} | {mean:.1f} +- {error:.1f} | {spread} | {games['cut']} |"
    assert row in PAGES["docs/earlier-results.md"]
    assert f"{mean:.0f} +- {error:.0f}" in PAGES["README.md"]


def test_the_attack_is_told_as_it_is_recorded():
    chaos = script("chaos")
    records = [json.loads(path.read_text()) for path in sorted((ROOT / "results" / "chaos").glob("*.json"))]
    assert chaos.table_of(records).splitlines() in tables("docs/support.md")
    page = (ROOT / "docs" / "support.md").read_text()
    for found in (found for record in records for found in record["found"]):
        assert f"`{found['what']}`" in page, "what was found is mended, and said"


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_are_there(page):
    named = [path for path in every(r"`(results/[\w./-]+)`", page) if "NAME" not in path]
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in every(r"\]\(([^)\s]+)\)", page):
        if target.startswith("http"):
            continue
        path, _, heading = target.partition("#")
        linked = (ROOT / page).parent / path if path else ROOT / page
        assert linked.exists(), target
        if heading:
            headings = re.findall(r"(?m)^#+ (.*)$", linked.read_text())
            assert heading in {anchor(text) for text in headings}, target


def anchor(heading: str) -> str:
    """As GitHub makes it: lower case, no punctuation, spaces as hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_commands_that_a_page_prints_are_understood(page):
    """Every command, kind and experiment is there, and knows every option that is given to it."""
    inline = every(r"`(megareward [a-z][^`\n]*)`", page)
    blocks = every(r"(?m)^(?: {4})?(megareward [a-z].*)$", page)
    for printed in [*inline, *blocks]:
        words = shlex.split(printed, comments=True)[1:]
        assert words[0] in COMMANDS, printed
        if words[0] == "experiment" and words[1:] and words[1].islower():
            assert set(words[1].split(",")) <= EXPERIMENTS.keys(), printed
        known = help_of(*named_part(words))
        assert "usage" in known, printed
        unknown = [word for word in words if word.startswith("--") and f"{word.split('=')[0]} " not in known]
        assert not unknown, f"{printed}: {unknown}"


def named_part(words: list[str]) -> list[str]:
    """The words that choose what `--help` explains: the command and, where it has kinds, which one."""
    if words[0] == "train":
        method = words[1] if len(words) > 1 and words[1].islower() else "mega"
        game = words[words.index("--game") + 1] if "--game" in words else "mini-pong"
        return ["train", method, "--game", game if game.islower() else "mini-pong"]
    has_kinds = words[0] in ("figure", "bench", "paper") or words[:2] == ["results", "add"]
    return words[: 2 if has_kinds else 1]


@functools.cache
def help_of(*words: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([*words, "--help"])
    return out.getvalue().replace("│", " ").replace(",", " ") + " --help "


ROWS = {
    "mega-reward": "mega",
    "curiosity": "curiosity",
    "rnd": "rnd",
    "empowerment": "emp",
    "survival alone": "alive",
    "random play": "random",
    "PPO on the score": "extrinsic",
}
GAMES = {"UpNDown": "up_n_down", "Seaquest": "seaquest", "Breakout": "breakout", "Pong": "pong"}


def recorded_scores(name: str) -> dict[tuple[str, str], list[float]]:
    return scores_of(EXPERIMENTS[name].cells(), RECORDS / name)


def test_the_readmes_scores_are_the_recorded_ones():
    [shown] = [table for table in tables("README.md") if "five mini games" in table[0]]
    head, *lines = ([cell.strip(" *") for cell in line.strip("|").replace("**", "").split("|")] for line in shown)
    means = EXPERIMENTS["death"].normalised(recorded_scores("death"))
    atari = recorded_scores("play") | recorded_scores("death-atari")
    [long_run] = (ROOT / "results" / "runs" / "pong").glob("extrinsic-*-20M-*.json")
    atari["extrinsic", "pong"] = [json.loads(long_run.read_text())["score"]]
    games = GAMES | {"KungFuMaster": "kung_fu_master"}
    assert head[1:] == ["five mini games", *games]
    assert [line[0] for line in lines[1:]] == list(ROWS)
    for (_, mini, *of_atari), row in zip(lines[1:], ROWS.values(), strict=True):
        mean, low, high = mean_of_games(means[row])
        spread = "" if row in ("random", "extrinsic") else f" [{low:.2f}, {high:.2f}]".replace("0.", ".")
        assert mini == (f"{mean:.2f}{spread}".replace("0.", ".", 1) if spread else f"{mean:.0f}")
        known = [atari.get((row, game)) for game in games.values()]
        digits = [1 if game == "Pong" else 0 for game in games]
        assert of_atari == [f"{np.mean(s):,.{d}f}" if s else "-" for s, d in zip(known, digits, strict=True)]


def beside_the_paper() -> list[str]:
    """Every reward that has played any of four Atari games: end of training, whole games, the paper's after 80M."""
    experiment, results = EXPERIMENTS["play"], RECORDS / "play"

    def shown(row: str, game: str) -> str:
        [cell] = experiment.cells_of(row, game)
        record = record_of(results, cell)
        played = [own["scores"] for own in record.evaluations if not own["greedy"]][-1:] if record else []
        whole = [f"{np.mean(scores):,.1f} +- {standard_error(scores):,.1f}" for scores in played] or ["-"]
        column = published().get(row if row == "random" else f"paper/{row}")
        paper = f"{column.scores[game]:,.1f}" if column else "-"
        return " / ".join([f"{record.score:,.1f}" if record else "-", *whole, paper])

    def begun(row: str) -> bool:
        return any(record_of(results, experiment.cells_of(row, game)[0]) for game in GAMES.values())

    rows = [f"| {row} | {' | '.join(shown(row, g) for g in GAMES.values())} |" for row in experiment.rows if begun(row)]
    return [f"| 10M frames / whole games / paper, 80M | {' | '.join(GAMES)} |", "|---" * (len(GAMES) + 1) + "|", *rows]


def test_the_page_has_every_reward_on_four_games_beside_the_paper():
    assert beside_the_paper() in tables("docs/results.md")


def learning_to_drive() -> list[str]:
    """UpNDown as training goes on: mean of the last 50 games at some ages, seed by seed."""
    rows = {
        "mega": ("death-atari/mega", (0, 1)),
        "mega, untrained maps": ("atari-forms/mega-untrained-maps", (0,)),
        "alive": ("death-atari/alive", (0, 1)),
        "rnd": ("death-atari/rnd", (0,)),
        "emp": ("play/emp", (0,)),
        "count": ("play/count", (0,)),
        "released": ("presets/released", (0,)),
    }
    ages = (4, 6, 8, 10)

    def at(path: str, seed: int, age: int) -> str:
        curve = json.loads((RECORDS / f"{path}-on-up_n_down-s{seed}.json").read_text())["curve"]
        return f"{min(curve, key=lambda point: abs(point[0] - age * 1e6))[1]:,.0f}"

    lines = [
        f"| {name} | {' | '.join('; '.join(at(path, seed, age) for seed in seeds) for age in ages)} |"
        for name, (path, seeds) in rows.items()
    ]
    return [f"| UpNDown after | {' | '.join(f'{age}M' for age in ages)} |", "|---" * (len(ages) + 1) + "|", *lines]


def test_the_page_shows_how_upndown_is_learnt():
    assert learning_to_drive() in tables("docs/results.md")
