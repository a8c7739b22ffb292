"""The report: the numbers of the runs' own logs, beside everybody else's, on a page that needs nothing."""

import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from megareward.analysis.published import published_score
from megareward.errors import RunError, UsageError
from megareward.runs.folder import RunFolder
from megareward.runs.logs import save_random_score
from megareward.training.config import TrainConfig, create_run
from megareward.viewer.charts import Level, Line, line_chart, number, standing, ticks
from megareward.viewer.report import write_report
from megareward.viewer.runs import Run, differences, flat, group_runs, interval_text, score_line
from tests.unit.test_imports import BLOCKED, run_python


def logged(
    path: Path, method: str = "mega", game: str = "breakout", seed: int = 0, score: float = 5.0, **settings
) -> Path:
    """A run's folder as training leaves it: 80 games of a score, 8 rows of metrics."""
    config = TrainConfig(method=method, game=game, frames=800_000, seed=seed, **settings)
    folder = create_run(path, config, {"device": "cpu", "commit": "abc"})
    for i in range(1, 81):
        points = float(score + (-1) ** i)
        folder.append("scores.jsonl", {"frames": i * 10_000, "score": points, "steps": 9, "env": 0, "cut": False})
    for i in range(1, 9):
        row = {"frames": i * 100_000, "loss/total": 1 / i, "score": score, "seconds/learn": 3.0, "seconds/act": 1.0}
        folder.append("metrics.jsonl", row)
    return path


class Balance(HTMLParser):
    """Every tag that opens must close, in order; no tag may name another place."""

    VOID = {"meta", "img", "br", "line", "path", "rect"}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src")]

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def read(path: Path) -> tuple[str, list[str]]:
    text = path.read_text()
    checker = Balance()
    checker.feed(text)
    assert checker.open == []
    assert not re.search(r"https?://", text)
    return text, checker.links


def test_one_run_is_reported_in_its_own_folder_beside_published_scores(tmp_path):
    page = write_report([logged(tmp_path / "run")])
    assert page == tmp_path / "run" / "report.html"
    text, links = read(page)
    for column in ("random", "paper/mega", "human/mnih2015", "ppo/schulman2017"):
        assert number(published_score(column, "breakout")) in text
    assert "<b>5</b>" in text
    assert "table of six baselines, after 80M frames" in text
    assert "32.0 s, 25k frames a second on cpu" in text  # 8 rows of 4 seconds, 800k frames
    assert "learn 75%" in text
    assert "megareward watch" in text
    assert links == []


def test_the_viewer_is_linked_with_its_picture_from_wherever_the_report_is(tmp_path):
    run = logged(tmp_path / "some where" / "run")
    (run / "watch.html").write_text("")
    (run / "watch.png").write_bytes(b"picture")
    _, links = read(write_report([run], tmp_path / "reports" / "page.html"))
    assert links == ["../some%20where/run/watch.html", "data:image/png;base64,cGljdHVyZQ=="]


def test_seeds_are_one_line_and_other_settings_are_another(tmp_path):
    runs = [logged(tmp_path / f"s{s}", seed=s, score=s) for s in range(3)]
    runs.append(logged(tmp_path / "other", score=9, g_channel="auto"))
    runs.append(logged(tmp_path / "ppo", method="extrinsic", score=20))
    groups = group_runs([Run.read(run) for run in runs])
    assert [(group.name, len(group.runs)) for group in groups] == [
        ("mega (g_channel no)", 3),
        ("mega (g_channel auto)", 1),
        ("extrinsic", 1),
    ]
    assert groups[0].scores == [0, 1, 2]
    page = write_report(runs)
    assert page == tmp_path / "report.html"
    text, _ = read(page)
    assert "95% bootstrap interval over 3 seeds" in text
    assert "What differs" in text


def test_a_mini_game_takes_the_random_score_that_is_kept_beside_the_run(tmp_path):
    run = logged(tmp_path / "run", game="mini-pong")
    assert "random" not in re.sub("<style>.*?</style>", "", read(write_report([run]))[0]).split("Case study")[0]
    save_random_score(run, -3.14, games=50)
    assert "random −3.14" in read(write_report([run]))[0]
    assert "random −3.14" in read(write_report([run, logged(tmp_path / "other", game="mini-pong", seed=1)]))[0]
    (run / "random-play.json").write_text('{"score": null}')
    with pytest.raises(UsageError, match=r"random-play\.json has the score None; remove it"):
        write_report([run])


def test_the_audit_is_shown_if_there_is_one(tmp_path):
    run = logged(tmp_path / "run")
    estimate = {"mean": 0.91, "low": 0.9, "high": 0.92, "frames": 100}
    nothing = {"mean": None, "low": None, "high": None, "frames": 0}
    scores = dict.fromkeys(("direct_auroc", "g_auroc", "g_spearman"), estimate)
    scores |= {"lag_auroc": [estimate, estimate, nothing]} | {
        f"{m}_calibration": {"error": 0.123} for m in ("direct", "g")
    }
    (run / "audit-random.json").write_text(json.dumps({"run": "run", "policy": "random", "scores": scores}))
    text, _ = read(write_report([run]))
    assert "<b>0.910</b> (0.900 to 0.920)" in text
    assert "0.123" in text
    assert "steps since the action" in text
    assert "of the way" not in text  # an audit of before there were controls
    scores["movers_auroc"] = estimate
    row = {key: {**estimate, "mean": 0.5} for key in scores}
    controls = {"untrained": row, "uniform": row, "seen": {key: {**estimate, "mean": 1.0} for key in scores}}
    written = {"run": "run", "policy": "random", "scores": scores, "controls": controls}
    (run / "audit-random.json").write_text(json.dumps(written))
    text, _ = read(write_report([run]))
    assert "movers, AUROC" in text
    assert "82% from 0.500 to 1.000, rules 0.500" in text


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"scores": {}}', '{"scores": {"direct_auroc": {"mean": "x"}}}', "\x80"]
)
def test_a_damaged_audit_is_named(tmp_path, content):
    run = logged(tmp_path / "run")
    (run / "audit-random.json").write_text(content)
    with pytest.raises(RunError, match=r"audit-random\.json is damaged .*; audit the run again or remove it"):
        write_report([run])


HARM = "<script>alert(1)</script>"


def test_nothing_that_a_run_holds_becomes_markup(tmp_path):
    """A metric's name, a game's, a path's, an audit's and a setting's: all of them come from files."""
    run = logged(tmp_path / f"run{HARM.replace('/', '')}")
    folder = RunFolder.open(run)
    for name in (HARM, f"seconds/{HARM}", f"loss/{HARM}"):
        folder.append("metrics.jsonl", {"frames": 900_000, name: 1.0})
    record = json.loads((run / "config.json").read_text())
    record["provenance"] = {"device": HARM, HARM: HARM}
    record["config"]["start_from"] = HARM
    (run / "config.json").write_text(json.dumps(record))
    none = dict.fromkeys(("mean", "low", "high"))
    scores = dict.fromkeys(("direct_auroc", "g_auroc", "g_spearman"), none) | {"lag_auroc": [none]}
    scores |= {f"{name}_calibration": {"error": 0.1} for name in ("direct", "g")}
    (run / "audit-random.json").write_text(json.dumps({"run": HARM, "policy": HARM, "scores": scores}))
    text, _ = read(write_report([run], tmp_path / "page.html"))
    assert "&lt;script&gt;" in text
    assert "<script" not in text


@pytest.mark.parametrize("name", ["game", "method", "seed", "frames", "env"])
def test_a_config_that_lacks_what_is_needed_is_named(tmp_path, name):
    run = logged(tmp_path / "run")
    record = json.loads((run / "config.json").read_text())
    del record["config"][name]
    (run / "config.json").write_text(json.dumps(record))
    with pytest.raises(UsageError, match=rf"config\.json does not say '{name}'; put it back"):
        write_report([run])


def test_damaged_lines_are_left_out_aloud(tmp_path, capsys):
    run = logged(tmp_path / "run")
    for log in ("metrics.jsonl", "scores.jsonl"):
        lines = (run / log).read_text().splitlines()
        broken = [
            "nonsense {",
            "[1]",
            '{"frames": "x", "score": 1}',
            '{"frames": 5}',
            '{"frames": NaN, "score": 2}',
            "[" * 10_000,
        ]
        (run / log).write_text("\n".join([*lines[:3], *broken, *lines[3:]]) + "\n")
    (run / "eval.jsonl").write_text('{"scores": 3}\n{"scores": []}\n{"scores": [1.0, "x"]}\n')
    assert "<b>5</b>" in read(write_report([run]))[0]
    said = capsys.readouterr().err
    assert "scores.jsonl has 6 damaged of 86 lines, which are left out." in said
    assert "metrics.jsonl has 5 damaged of 14 lines" in said  # frames alone are a row of metrics
    assert "eval.jsonl has 3 damaged of 3 lines" in said


def test_a_run_without_a_finished_game_says_so(tmp_path):
    run = logged(tmp_path / "run")
    (run / "scores.jsonl").unlink()
    assert "No game has been finished yet." in read(write_report([run]))[0]


def test_a_single_game_has_a_score_and_no_curve(tmp_path):
    run = logged(tmp_path / "run")
    lines = (run / "scores.jsonl").read_text().splitlines()
    (run / "scores.jsonl").write_text(lines[0] + "\n")
    text = read(write_report([run]))[0]
    assert "Too few games for a curve." in text
    assert "<b>4</b>" in text


def test_what_cannot_be_reported_is_refused(tmp_path):
    run = logged(tmp_path / "run")
    with pytest.raises(UsageError, match="Which run"):
        write_report([])
    with pytest.raises(UsageError, match="A run is named twice"):
        write_report([run, tmp_path / "." / "run"])
    (run / "metrics.jsonl").unlink()
    with pytest.raises(UsageError, match="has no metrics yet"):
        write_report([run])


def test_a_report_needs_no_torch(tmp_path):
    run = logged(tmp_path / "run")
    imports = "from pathlib import Path\nfrom megareward.viewer.report import write_report\n"
    run_python(BLOCKED.format(names={"torch"}) + imports + f"write_report([Path({str(run)!r})])")
    assert (run / "report.html").exists()


def test_names_on_the_common_axis_do_not_cover_each_other():
    others = [("random", 1.7), ("human", 31.8), ("PPO (2017)", 274.8), ("paper's mega", 225.3)]
    chart = standing([("mega", 22.5), ("extrinsic", 30.0)], others, label="x")
    places = re.findall(r'x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)">([^<]+)<', chart)
    assert len(places) == 6
    spans = sorted(
        (
            float(y),
            float(x) - (7 * len(words) if anchor == "end" else 0),
            float(x) + (7 * len(words) if anchor == "start" else 0),
        )
        for x, y, anchor, words in places
    )
    assert all(b[0] != a[0] or b[1] > a[2] for a, b in itertools.pairwise(spans))


# Numbers -------------------------------------------------------------------------------------------------------------


def test_the_line_of_several_seeds_covers_the_frames_that_all_have(tmp_path):
    runs = [Run.read(logged(tmp_path / f"s{s}", seed=s, score=s)) for s in range(2)]
    del runs[1].episodes[40:]
    line = score_line(group_runs(runs)[0])
    assert line.x[-1] == 400_000
    assert line.y[-1] == pytest.approx(0.5)
    assert (line.low[-1], line.high[-1]) == pytest.approx((0, 1))


def test_a_seed_that_ended_before_another_had_enough_games_leaves_no_line(tmp_path):
    runs = [Run.read(logged(tmp_path / f"s{s}", seed=s, score=s)) for s in range(2)]
    del runs[0].episodes[5:]
    [group] = group_runs(runs)
    assert score_line(group) is None
    assert interval_text(group) == "from the worse to the better of two seeds"
    del runs[0].episodes[1:]
    assert interval_text(group).startswith("95% interval of the mean over the last 50 games")


def test_the_band_of_one_seed_is_the_error_of_its_last_games(tmp_path):
    line = score_line(group_runs([Run.read(logged(tmp_path / "run", score=5))])[0])
    assert line.y[-1] == pytest.approx(5)
    assert line.high[-1] - line.y[-1] == pytest.approx(1.96 * np.std([1, -1] * 25, ddof=1) / np.sqrt(50))


def test_settings_by_name_and_what_differs(tmp_path):
    assert flat({"a": {"b": {"c": 1}}, "d": [2]}) == {"a.b.c": 1, "d": [2]}
    one, two = (Run.read(logged(tmp_path / n, seed=s, g_channel=g)) for n, s, g in (("a", 0, "no"), ("b", 1, "yes")))
    assert differences([one, two]) == {"g_channel": ["no", "yes"]}
    assert one.changed() == {"frames": (800_000, 200_000)}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (-3.14159, "−3.14"),
        (1234.5, "1,234"),
        (40_000, "40k"),
        (20_181.8, "20,182"),
        (2.5e7, "25M"),
    ],
)
def test_numbers_are_short(value, text):
    assert number(value) == text


def test_ticks_are_round_and_inside():
    assert ticks(-5.2, 2.1) == [-4, -2, 0, 2]
    assert ticks(0, 40_960) == [0, 10_000, 20_000, 30_000, 40_000]
    assert ticks(0.71, 0.99) == pytest.approx([0.8, 0.9])


def test_a_level_far_away_is_named_at_the_edge_and_does_not_flatten_the_curve():
    line = Line("ours", np.array([0.0, 10.0]), np.array([0.0, 1.0]))
    chart = line_chart([line], [Level("human", 20_000), Level("random", 0.5)], label="x")
    assert "↑ human 20k" in chart
    assert chart.count('class="level"') == 1
    heights = [float(y) for y in re.findall(r'class="line" d="M[\d.]+ ([\d.]+)L[\d.]+ ([\d.]+)"', chart)[0]]
    assert heights[0] - heights[1] > 200


def test_every_game_is_drawn_at_its_own_score():
    x = np.arange(4.0) + 1
    line = Line("mega", x, np.ones(4), np.ones(4), np.ones(4) * 1.9)
    chart = line_chart([line], label="score", dots=[(x, np.array([1.0, 3.0, 4.0, 5.0]))])
    places = [float(y) for y in re.findall(r"M[\d.]+ ([\d.]+)h0", chart)]
    assert len(set(places)) == 4
    assert places == sorted(places, reverse=True)  # higher scores further up, none cut off
    assert places[1] - places[2] == pytest.approx(places[2] - places[3], abs=0.11)
    assert "<title>mega: 1 (1 to 1.9) at 4 frames</title>" in chart


def test_few_games_have_no_interval(tmp_path):
    config = TrainConfig(method="mega", game="breakout", frames=800_000)
    folder = create_run(tmp_path / "run", config, {})
    for i in range(1, 5):
        folder.append("scores.jsonl", {"frames": i * 100, "score": 0.0, "steps": 9, "env": 0, "cut": False})
    folder.append("metrics.jsonl", {"frames": 500, "loss/total": 1.0})
    text, _ = read(write_report([folder.path]))
    assert "too few games" in text
    assert "0 to 0" not in text


def test_marks_are_explained(tmp_path):
    text, _ = read(write_report([logged(tmp_path / "run")]))
    for words in (
        "Dots: one game each.",
        "Dotted lines: scores of others.",
        "diamonds are these runs",
        "the last value",
    ):
        assert words in text
