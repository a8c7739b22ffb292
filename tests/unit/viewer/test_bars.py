"""Bars with their numbers, on an axis that holds both 5% and 100,000%."""

import re
import xml.etree.ElementTree as ElementTree

from megareward.viewer.bars import Bar, bar_chart


def widths(svg: str) -> list[float]:
    return [float(w) for w in re.findall(r'<rect class="bar"[^>]* width="([\d.]+)"', svg)]


def test_every_number_is_written_and_longer_bars_are_larger_numbers():
    groups = [
        ("a", [Bar(5.0), Bar(100.0, 80.0, 120.0, "bt")]),
        ("b & c", [Bar(1e5), None]),
        ("d", [Bar(-50.0), "none"]),
    ]
    svg = bar_chart(["ours", "theirs"], groups, label="x", level=100.0)
    ElementTree.fromstring(svg)  # well formed
    for text in (">5%<", ">100%<", ">100k%<", ">−50%<", "b &amp; c", " bt<", ">missing<", ">none<"):
        assert text in svg
    five, hundred, many, _ = widths(svg)
    assert five < hundred < many < 760
    assert many < 20 * hundred  # far from zero the axis is logarithmic
    assert svg.count("whisker") == 1


def test_a_linear_axis_is_linear_and_an_empty_chart_is_drawn():
    one, two = widths(bar_chart(["s"], [("a", [Bar(1.0)]), ("b", [Bar(2.0)])], label="x", unit="", linear=True))
    assert abs(two - 2 * one) < 0.2
    svg = bar_chart(["s", "t"], [("a", [None, None]), ("b", [None, Bar(1.0)])], label="x")
    assert svg.count(">missing<") == 2  # a group of which nothing is there says so once
    empty = bar_chart(["s"], [("a", [None])], label="x", unit="", linear=True)
    assert ">missing<" in empty
    assert "e-" not in empty
