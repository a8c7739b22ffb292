"""The page in a real browser: it opens from disk, plays, is scrubbed by mouse and keys, and tells a cell's sources."""

import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from megareward.viewer.figure import best_moment
from megareward.viewer.page import write_page
from megareward.viewer.palette import AMBER, TEAL
from megareward.viewer.recording import RunMaps
from megareward.viewer.report import write_report
from tests.chromium import Browser, browsing, find_chromium
from tests.unit.viewer.made import H, T, W, made
from tests.unit.viewer.test_report import logged

pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="no chromium or chrome on the path; install one, or name it with CHROMIUM=..."
)
READY = "document.body && document.body.dataset.ready"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with browsing(tmp_path_factory.mktemp("profile"), width=1280, height=800) as browser:
        yield browser


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    return write_page(made(truth=True), tmp_path_factory.mktemp("page") / "watch.html")


@pytest.fixture
def opened(browser, page):
    """The page, fresh, at step 0; whatever a test does, nothing may be complained about."""
    yield from shown(browser, page)


def shown(
    browser: Browser, page: Path, anchor: str = "#t=0", width: int = 1280, height: int = 800, phone: bool = False
):
    browser.send("Page.navigate", url="about:blank")  # leave the page, so that a new anchor loads it anew
    browser.complaints.clear()
    browser.resize(width, height, phone)
    browser.open(page, anchor)
    browser.wait(READY)
    yield browser
    assert browser.complaints == []


def step(browser: Browser) -> int:
    return int(browser.value("document.body.dataset.shown"))


def wait_for_step(browser: Browser, t: int) -> None:
    browser.wait(f"document.body.dataset.shown == {t}")


def pixel(browser: Browser, panel: str, cell: int) -> list[int]:
    """The colour near the upper left corner of a cell, where nothing is written."""
    across, down = (cell % W + 0.12) / W, (cell // W + 0.12) / H
    return browser.value(
        "(c => { const one = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});"
        f" one.drawImage(c, Math.floor(c.width * {across}), Math.floor(c.height * {down}), 1, 1, 0, 0, 1, 1);"
        f" return [...one.getImageData(0, 0, 1, 1).data]; }})(document.querySelector('#panel-{panel} canvas'))"
    )[:3]


def test_it_opens_from_disk_with_all_six_panels_and_no_complaint(opened):
    assert opened.value("location.protocol") == "file:"
    titles = opened.value("[...document.querySelectorAll('figcaption b')].map(b => b.textContent)")
    assert titles == ["Frame", "Sources", "Direct control", "True direct", "Control g", "True g"]
    assert opened.value("document.title") == "mini-pong, mega: what is under control"
    assert "step 0 of 599" in opened.value("document.getElementById('clock').textContent")


def test_it_plays_and_pauses_at_the_chosen_speed(opened):
    opened.key(" ")
    opened.wait("document.body.dataset.shown > 3")
    opened.key(" ")
    opened.wait("document.body.dataset.playing === 'false'")
    stopped = step(opened)
    time.sleep(0.2)
    assert step(opened) == stopped
    opened.value("document.getElementById('speed').value = '16'")
    opened.value("document.getElementById('play').click()")
    opened.wait(f"document.body.dataset.shown == {T - 1} && document.body.dataset.playing === 'false'")
    opened.value("document.getElementById('play').click()")  # at the end: from the beginning
    opened.wait("document.body.dataset.shown < 300")


def test_keys_step_jump_and_reach_both_ends(opened):
    for key, more, t in [
        ("ArrowRight", {}, 1),
        ("ArrowRight", {"modifiers": 8}, 11),
        ("ArrowLeft", {}, 10),
        ("n", {}, 50),  # the first point
        ("n", {}, 150),
        ("n", {}, 200),  # a new game
        ("p", {}, 150),
        ("End", {}, T - 1),
        ("Home", {}, 0),
    ]:
        opened.key(key, **more)
        wait_for_step(opened, t)
    opened.wait("location.hash === '#t=0'")


def test_the_mouse_scrubs_on_both_time_lines(opened):
    opened.drag("#slider", 0.02, 0.5)
    opened.wait(f"Math.abs(document.body.dataset.shown - {T // 2}) < 12")
    opened.key("Home")
    wait_for_step(opened, 0)
    opened.drag("#lanes", 0.05, 0.5)
    wait_for_step(opened, 120)  # the lanes show 240 steps
    opened.wait("document.getElementById('slider').value === '120'")


def test_what_is_seen_is_what_was_recorded(opened):
    recording = made(truth=True)
    late = next(t for t in range(402, T, 3) if recording.truth.direct[t].any())
    for t in (0, 255, 256, late):  # 256 opens a chunk
        opened.value(f"location.hash = '#t={t}'")
        wait_for_step(opened, t)
        frame = recording.frames[t]
        for cell in (0, 5, 11):
            y, x = int((cell // W + 0.12) / H * 24), int((cell % W + 0.12) / W * 40)
            assert pixel(opened, "frame", cell) == [frame[y, x]] * 3
    brightest = int(recording.truth.direct[late].argmax())
    darkest = int(recording.truth.direct[late].argmin())
    assert sum(pixel(opened, "true_direct", brightest)) > sum(pixel(opened, "true_direct", darkest)) + 150
    opened.wait("document.getElementById('tile-action').textContent === 'noop'")
    opened.wait("document.getElementById('tile-score').textContent === '0'")


def test_pointing_at_a_cell_tells_its_sources(opened):
    recording, t, cell = made(truth=True), 130, 6
    opened.value(f"location.hash = '#t={t}'")
    wait_for_step(opened, t)
    before = opened.value("document.querySelector('#panel-sources canvas').toDataURL()")
    opened.hover("#panel-g canvas", (cell % W + 0.5) / W, (cell // W + 0.5) / H)
    opened.wait("document.getElementById('picked').textContent.includes('row 2, column 3')")
    text = opened.value("document.getElementById('picked').textContent")
    weights = recording.learnt.relation[t, cell]
    for source in np.argsort(-weights.astype(int), kind="stable")[:4]:
        name = "itself" if source == cell else f"r{source // W + 1} c{source % W + 1}"
        assert f"{name} {weights[source]}%" in text
    assert f"control g {recording.learnt.g[t, cell]:.2f}"[:14] in text
    opened.wait(f"document.querySelector('#panel-sources canvas').toDataURL() !== '{before}'")
    opened.wait("document.querySelector('#panel-sources small').textContent.includes('explain row 2, column 3')")
    opened.hover("#title")
    opened.wait("document.getElementById('picked').textContent.includes('Point at a cell')")


def test_a_cell_is_picked_by_click_and_by_keys_and_the_address_remembers_it(opened, page):
    opened.value("document.querySelector('#panel-frame canvas').scrollIntoView()")
    x, y = opened.place("#panel-frame canvas", 0.9, 0.1)
    opened.mouse("mousePressed", x, y, button="left", clickCount=1)
    opened.mouse("mouseReleased", x, y, button="left", clickCount=1)
    opened.wait("location.hash === '#t=0&cell=3'")
    opened.hover("#title")
    opened.key("s")
    opened.key("a")
    opened.wait("location.hash === '#t=0&cell=6'")
    opened.wait("document.getElementById('picked').textContent.includes('row 2, column 3 (kept)')")
    opened.key("Escape")
    opened.wait("location.hash === '#t=0'")
    for again in shown(opened, page, "#t=77&cell=4"):
        wait_for_step(again, 77)
        again.wait("document.getElementById('picked').textContent.includes('row 2, column 1')")


def test_it_fits_a_phone_and_is_worked_by_touch(browser, page):
    for phone in shown(browser, page, width=360, height=740, phone=True):
        assert phone.value("document.documentElement.scrollWidth") == 360
        small = phone.value(
            "[...document.querySelectorAll('footer button')].filter(b => b.getBoundingClientRect().height < 40).length"
        )
        assert small == 0
        phone.send("Emulation.setTouchEmulationEnabled", enabled=True)
        phone.tap("#panel-direct canvas", 0.9, 0.9)
        phone.wait("document.getElementById('picked').textContent.includes('row 3, column 4 (kept)')")
        phone.tap("#play")
        phone.wait("document.body.dataset.shown > 2")
        phone.send("Emulation.setTouchEmulationEnabled", enabled=False)


def test_dark_and_light_both_have_readable_text(opened):
    contrast = """(() => {
      const numbers = c => c.match(/[\\d.]+/g).map(Number).slice(0, 3).map(v => (v / 255) ** 2.2);
      const light = c => numbers(c).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
      const style = getComputedStyle(document.getElementById('subtitle'));
      const [a, b] = [light(style.color), light(getComputedStyle(document.body).backgroundColor)].sort((x, y) => y - x);
      return (a + .05) / (b + .05); })()"""
    themes = set()
    for _ in range(2):
        themes.add(opened.value("document.documentElement.classList.contains('dark')"))
        assert opened.value(contrast) > 4.5  # WCAG AA
        opened.key("t")
    assert themes == {True, False}


def test_everything_that_can_be_used_has_a_name(opened):
    nameless = opened.value(
        "[...document.querySelectorAll('button, input, select, canvas')].filter(e => !(e.ariaLabel || e.labels?.length"
        " || e.textContent.trim() || e.getAttribute('aria-hidden'))).map(e => e.id)"
    )
    assert nameless == []
    assert re.match("step 0, game 1, action –", opened.value("document.getElementById('slider').ariaValueText"))


def test_a_run_without_maps_is_shown_as_a_game_with_its_score(browser, tmp_path):
    path = write_page(made(learnt=False), tmp_path / "watch.html")
    for plain in shown(browser, path):
        assert plain.value("document.querySelectorAll('figure').length") == 1
        plain.key("n")
        wait_for_step(plain, 50)
        plain.wait("document.getElementById('tile-score').textContent === '2'")
        assert plain.value("getComputedStyle(document.getElementById('picked')).display") == "none"


def test_maps_without_a_relation_are_shown_without_sources(browser, tmp_path):
    recording = made()
    bare = replace(recording, learnt=replace(recording.learnt, relation=None))
    for oracle in shown(browser, write_page(bare, tmp_path / "watch.html"), "#t=130&cell=6"):
        wait_for_step(oracle, 130)
        titles = oracle.value("[...document.querySelectorAll('figcaption b')].map(b => b.textContent)")
        assert titles == ["Frame", "Direct control", "Control g"]
        text = oracle.value("document.getElementById('picked').textContent")
        assert "control g" in text
        assert "comes from" not in text


@pytest.mark.parametrize("width", [360, 1280])
def test_a_report_opens_without_complaint_and_fits(browser, tmp_path, width):
    runs = [logged(tmp_path / "a", score=2), logged(tmp_path / "b", seed=1), logged(tmp_path / "c", "extrinsic")]
    browser.complaints.clear()
    browser.resize(width, 740, phone=width < 500)
    browser.open(write_report(runs))
    browser.wait("document.querySelectorAll('section').length >= 5")
    assert browser.value("document.documentElement.scrollWidth") == width
    scales = browser.value(
        "[...document.querySelectorAll('svg')].filter(s => s.clientWidth)"
        ".map(s => s.clientWidth / s.viewBox.baseVal.width)"
    )
    assert min(scales) > 0.7  # 12 pixels of text stay legible
    assert browser.complaints == []


@pytest.mark.slow
def test_ten_thousand_steps_open_within_two_seconds_and_stay_under_25_megabytes(browser, tmp_path):
    """Frames of Atari's size; maps and relation of a 7 x 7 grid, as noisy as softmax makes them at its worst."""
    steps, cells = 10_000, 49
    random = np.random.default_rng(0)
    relation = (random.dirichlet(np.full(cells, 0.2), (steps, cells)) * 100).round().astype(np.uint8)
    maps = random.dirichlet(np.full(cells, 0.2), (2, steps)).astype(np.float32)
    learnt = RunMaps(maps[0], maps[1], maps[0].max(-1), relation)
    recording = replace(made(steps, learnt=False, size=(84, 84)), H=7, W=7, learnt=learnt)
    path = write_page(recording, tmp_path / "long.html")
    assert path.stat().st_size < 25e6
    for long in shown(browser, path):
        milliseconds = int(long.value("document.body.dataset.ready"))
        assert milliseconds < 2000
        long.key("End")
        wait_for_step(long, steps - 1)
        print(f"{path.stat().st_size / 1e6:.1f} MB, {milliseconds} ms")


def test_without_an_address_it_opens_where_most_happens_and_plays(browser, tmp_path):
    recording = made()
    for opened in shown(browser, write_page(recording, tmp_path / "watch.html"), anchor=""):
        opened.wait("document.body.dataset.playing === 'true'")
        best = best_moment(recording, 40)
        assert best > 0
        opened.wait(f"document.body.dataset.shown > {best}")
        assert step(opened) < best + 200
        opened.key(" ")


def test_on_a_phone_nobody_is_asked_for_keys(browser, page):
    browser.send("Emulation.setTouchEmulationEnabled", enabled=True)
    try:
        for phone in shown(browser, page, width=360, height=740, phone=True):
            phone.wait("document.getElementById('picked').textContent.startsWith('Tap a cell')")
    finally:
        browser.send("Emulation.setTouchEmulationEnabled", enabled=False)


def test_pointing_at_a_lane_tells_its_numbers_there(opened):
    before = opened.value("document.querySelector('#lanes').toDataURL()")
    opened.hover("#lanes", 0.5)
    opened.wait("document.body.dataset.pointed == 120")
    opened.wait(f"document.querySelector('#lanes').toDataURL() !== '{before}'")
    assert step(opened) == 0


def test_every_number_of_the_step_is_explained(opened):
    titles = opened.value("[...document.querySelectorAll('#tiles div')].map(d => d.title)")
    assert len(titles) == 6
    assert all(titles)
    assert "Eq. 11" in opened.value("document.getElementById('caption').textContent")


# Truth laid over the maps ---------------------------------------------------------------------------------------------


def coloured(browser: Browser, panel: str, colour: tuple[int, int, int]) -> int:
    """How many pixels of a panel have this colour."""
    return browser.value(
        f"(c => {{ const one = new OffscreenCanvas(c.width, c.height).getContext('2d'), want = {list(colour)};"
        " one.drawImage(c, 0, 0); const data = one.getImageData(0, 0, c.width, c.height).data; let n = 0;"
        " for (let i = 0; i < data.length; i += 4) n += want.every((v, k) => Math.abs(v - data[i + k]) < 3);"
        f" return n; }})(document.querySelector('#panel-{panel} canvas'))"
    )


def test_the_truth_is_laid_over_frame_and_maps_in_the_colours_of_the_palette(opened):
    recording = made(truth=True)
    t = next(t for t in range(130, T) if recording.truth.direct[t].sum() == 1)
    cell = int(recording.truth.direct[t].argmax())
    opened.value(f"location.hash = '#t={t}'")
    wait_for_step(opened, t)
    opened.key("v")  # no numbers: they are as light as the lines
    opened.wait("document.getElementById('numbers').ariaPressed === 'false'")
    opened.wait("document.getElementById('key').hidden")
    lines = {"frame": (AMBER[-1], TEAL[-1]), "direct": (AMBER[-1],), "g": (TEAL[-1],)}
    before = {(panel, ink): coloured(opened, panel, ink) for panel, inks in lines.items() for ink in inks}
    opened.key("o")
    opened.wait(f"location.hash === '#t={t}&truth=1'")
    opened.wait("document.querySelector('#panel-direct small').textContent.startsWith('the line encloses the truth')")
    for (panel, ink), count in before.items():
        assert coloured(opened, panel, ink) > count + 20, (panel, ink)
    learnt = recording.learnt.direct[t]
    words = f"mean inside {learnt[cell]:.2f}, outside {np.delete(learnt, cell).mean():.2f}"
    assert words in opened.value("document.querySelector('#panel-direct small').textContent")
    assert "another last action would change" in opened.value("document.getElementById('key').innerText")
    opened.value("document.getElementById('truth').click()")
    opened.wait(f"location.hash === '#t={t}' && document.getElementById('key').hidden")
    opened.wait("document.querySelector('#panel-direct small').textContent.startsWith('what the last action moved')")
    assert coloured(opened, "frame", AMBER[-1]) == before["frame", AMBER[-1]]


def test_a_link_opens_with_the_truth_and_a_page_without_an_audit_has_none(browser, page, tmp_path):
    for linked in shown(browser, page, "#t=130&truth=1"):
        linked.wait("document.getElementById('truth').ariaPressed === 'true'")
    for plain in shown(browser, write_page(made(), tmp_path / "watch.html"), "#t=130&truth=1"):
        wait_for_step(plain, 130)
        plain.key("o")
        assert plain.value("document.getElementById('truth').hidden && document.getElementById('key').hidden")
        assert plain.value("document.getElementById('truth').ariaPressed") == "false"


# Two games ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> Path:
    """Beside the usual recording a shorter one with a point at step 70, rewards of ten times the size, another grid."""
    points = np.where(np.arange(400) == 70, 8, 0).astype(np.float32)
    other = replace(made(400, learnt=False), method="mega, random play", points=points)
    rewards, maps = made(400).learnt.mega_reward * 10, np.full((400, 24), 0.25, np.float32)
    maps[:, 15] = 1.0
    other = replace(other, H=4, W=6, learnt=RunMaps(maps, maps, rewards))
    return write_page(made(), tmp_path_factory.mktemp("pair") / "watch-beside.html", other)


def text_of(browser: Browser, name: str) -> str:
    return browser.value(f"document.getElementById('{name}').textContent")


def test_two_games_run_under_one_clock_from_their_common_start(browser, pair):
    for two in shown(browser, pair, anchor=""):
        two.wait("document.body.dataset.playing === 'true'")
        two.key(" ")
        assert step(two) < 60  # it began at the start, not at the first game's best moment
        titles = two.value(
            "[...document.querySelectorAll('h2')].map(h => h.textContent).filter(t => t.includes('seed'))"
        )
        assert titles == [
            "mega, seed 7, trained for 12,345 frames",
            "mega, random play, seed 7, trained for 12,345 frames",
        ]
        two.key("Home")
        for key, t, scores in [("n", 50, ["2", "0"]), ("n", 70, ["2", "8"]), ("p", 50, ["2", "0"])]:
            two.key(key)  # events of either game
            wait_for_step(two, t)
            assert [text_of(two, "tile-score"), text_of(two, "tile-score-1")] == scores
            assert text_of(two, "tile-step") == text_of(two, "tile-step-1") == str(t)
        two.key("End")
        wait_for_step(two, 399)  # of the shorter one
        assert "step 399 of 399" in text_of(two, "clock")


def test_pointing_at_one_game_points_at_the_same_place_of_the_other(browser, pair):
    for two in shown(browser, pair, "#t=130"):
        wait_for_step(two, 130)
        two.hover("#panel-g-1 canvas", 3.5 / 6, 2.5 / 4)  # cell 15 of 4 x 6 lies in row 2, column 3 of 3 x 4
        two.wait("document.getElementById('picked').textContent.includes('row 2, column 3')")
        assert f"control g {made().learnt.g[130, 6]:.2f}" in text_of(two, "picked")
        two.hover("#panel-frame canvas", 2.5 / 4, 1.5 / 3)
        two.wait("document.getElementById('picked-1').textContent.includes('row 3, column 4')")
        assert "control g 1.00" in text_of(two, "picked-1")
        two.hover("#lanes-1", 0.5)
        two.wait("document.body.dataset.pointed == 120")


def test_two_games_share_the_scales_of_their_curves(browser, pair):
    for two in shown(browser, pair):
        ranges = two.value("sides.map(side => side.plotted.map(lane => lane.range))")
        assert ranges[0] == ranges[1]
        assert ranges[0][0][1] > 0.9  # the second's rewards are the larger ones
        assert ranges[0][2] == [0, 8]


def test_a_method_without_maps_can_stand_beside_one_with_maps(browser, tmp_path):
    path = write_page(made(learnt=False, method="rnd"), tmp_path / "two.html", made())
    for two in shown(browser, path, "#t=130"):
        wait_for_step(two, 130)
        assert two.value("document.querySelectorAll('figure').length") == 4
        two.hover("#panel-direct-1 canvas", 0.6, 0.5)
        two.wait("document.getElementById('picked-1').textContent.includes('row 2, column 3')")
        assert two.value("getComputedStyle(document.getElementById('picked')).display") == "none"


@pytest.mark.parametrize("anchor", ["#t=130", "#t=130&cell=6&truth=1"])
def test_two_games_fit_a_phone_one_above_the_other(browser, tmp_path, anchor):
    path = write_page(made(truth=True), tmp_path / "two.html", made(truth=True))
    for phone in shown(browser, path, anchor, width=360, height=740, phone=True):
        wait_for_step(phone, 130)
        assert phone.value("document.documentElement.scrollWidth") == 360
        first, second = phone.value(
            "['', '-1'].map(n => { const b = document.querySelector(`#panel-frame${n} canvas`).getBoundingClientRect();"
            " return [b.left, b.top, b.bottom]; })"
        )
        assert first[0] == second[0]
        assert first[2] < second[1] < 740
