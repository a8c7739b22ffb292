"""The documentation as a site: the menu, the pages that are made, and where links lead."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from megareward.rewards import METHODS
from tests.unit.test_imports import load_script

site = load_script("docs_site")
ROOT = Path(__file__).parents[2]
PAGES = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]


def test_every_page_is_in_the_menu_once_and_unknown_ones_come_last():
    menu = site.menu([*PAGES, *site.generated(), "a-new-page.md", "paper-page/index.md", "images/x.png"])
    listed = [page for part in menu for pages in part.values() for page in pages]
    assert sorted(listed) == sorted({*PAGES, *site.generated(), "a-new-page.md", "paper-page/index.md"})
    assert listed[0] == "index.md"
    assert {"a-new-page.md", "paper-page/index.md"} <= set(menu[-1]["More"])


def test_every_method_has_a_page():
    pages = site.method_pages((ROOT / "docs" / "methods.md").read_text())
    for method in METHODS:
        base = method.removeprefix("mega-") if method in ("mega-direct", "mega-count") else method
        texts = [text for name, text in pages.items() if base in name or f"`{method}`" in text]
        assert texts, method
    assert all(text.startswith("# ") for text in pages.values())


def test_links_are_moved_with_their_pages():
    text = "[a](#rnd) [b](audit.md#controls) [c](https://x.org) ![d](images/d.png)"
    assert site.deeper(text) == (
        "[a](../methods.md#rnd) [b](../audit.md#controls) [c](https://x.org) ![d](../images/d.png)"
    )
    text = site.into_the_site(site.of_the_root("[a](docs/audit.md#b) [c](CONTRIBUTING.md) [d](CITATION.cff) [e](#f)"))
    assert text == "[a](audit.md#b) [c](contributing.md) d (`CITATION.cff` in the repository) [e](#f)"


def test_a_method_page_links_to_the_other_pages():
    page = site.into_the_site(site.deeper("[results](results.md#pong) ![a](images/report.png) [b](../results/runs)"))
    assert page == "[results](../results.md#pong) ![a](../images/report.png) b (`../results/runs` in the repository)"


def test_a_list_is_a_list_also_right_below_its_paragraph():
    text = "Three:\n- one\n  more\n- two\n\n```\nx\n- y\n```\n1. a\n2. b"
    assert site.with_lists(text) == "Three:\n\n- one\n  more\n- two\n\n```\nx\n- y\n```\n\n1. a\n2. b"


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="make docs builds it where mkdocs is installed")
def test_the_site_builds_strictly(tmp_path):
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
