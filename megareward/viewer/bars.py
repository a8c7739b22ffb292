"""Bars with their numbers as SVG text, on an axis that is linear around zero and logarithmic far from it."""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from megareward.viewer.charts import STYLES, number, ticks

LINEAR = 25.0
"""Up to about here the axis is linear."""
THICK, GAP = 15, 9


@dataclass(frozen=True)
class Bar:
    """A value with its interval, if it has one."""

    value: float
    low: float | None = None
    high: float | None = None
    mark: str = ""
    """Shown after the number."""


def bar_chart(
    series: Sequence[str],
    groups: Sequence[tuple[str, Sequence[Bar | str | None]]],
    *,
    label: str,
    unit: str = "%",
    level: float | None = None,
    linear: bool = False,
    width: int = 760,
) -> str:
    """One group of bars per name, with one bar, or words, per series; None is shown as missing, only once if all of
    a group is. `level` is drawn as a line."""
    groups = [(name, own if any(own) else own[:1]) for name, own in groups]
    bars = [bar for _, own in groups for bar in own if isinstance(bar, Bar)]
    ends = (
        [1.0]
        if not bars and not level
        else [end for bar in bars for end in (bar.value, bar.low, bar.high) if end is not None]
    )
    low, high = (float(_place(np.array(f), linear)) for f in (min([0.0, *ends]), max([level or 0.0, *ends])))
    left = 16 + 7 * max([len(name) for name, _ in groups], default=0)
    inner = width - left - 108
    top = 14 + 18 * len(series)

    def px(value: float) -> float:
        return left + (float(_place(np.array(value), linear)) - low) / (high - low) * inner

    height = top + sum(THICK * len(own) + GAP for _, own in groups) + 26
    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(label)}">']
    for i, name in enumerate(series):
        parts.append(f'<rect x="{left}" y="{6 + 18 * i}" width="22" height="11" fill="{STYLES[i][0]}" class="bar"/>')
        parts.append(f'<text x="{left + 30}" y="{16 + 18 * i}">{html.escape(name)}</text>')
    for tick in _ticks(low, high, linear):
        x, foot = px(tick), height - 8
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{height - 24}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{foot}" text-anchor="middle">{number(tick)}{unit}</text>')
    if level is not None:
        parts.append(f'<line class="level" x1="{px(level):.1f}" x2="{px(level):.1f}" y1="{top}" y2="{height - 24}"/>')
    y = float(top)
    for name, own in groups:
        middle = y + THICK * len(own) / 2 + 4
        parts.append(f'<text x="{left - 8}" y="{middle:.1f}" text-anchor="end">{html.escape(name)}</text>')
        for i, bar in enumerate(own):
            parts.append(_one(bar, px, y, STYLES[i][0], unit))
            y += THICK
        y += GAP
    return "".join([*parts, "</svg>"])


def _one(bar: Bar | str | None, px: Callable[[float], float], y: float, colour: str, unit: str) -> str:
    zero, middle = px(0.0), y + THICK / 2
    if not isinstance(bar, Bar):
        return f'<text class="faint" x="{zero + 5:.1f}" y="{middle + 4:.1f}">{html.escape(bar or "missing")}</text>'
    end = px(bar.value)
    parts = [
        f'<rect class="bar" x="{min(zero, end):.1f}" y="{y + 1:.1f}" width="{max(abs(end - zero), 1):.1f}" '
        f'height="{THICK - 3}" fill="{colour}"/>'
    ]
    if bar.low is not None and bar.high is not None:
        parts.append(f'<path class="whisker" d="M{px(bar.low):.1f} {middle:.1f}H{px(bar.high):.1f}"/>')
        end = max(end, px(bar.high))
    text = f"{number(bar.value)}{unit}"
    mark = f'<tspan class="faint"> {html.escape(bar.mark)}</tspan>' if bar.mark else ""
    return "".join([*parts, f'<text x="{max(end, zero) + 5:.1f}" y="{middle + 4:.1f}">{text}{mark}</text>'])


def _place(value: np.ndarray, linear: bool) -> np.ndarray:
    return value if linear else np.arcsinh(value / LINEAR)


def _ticks(low: float, high: float, linear: bool) -> list[float]:
    if linear:
        return ticks(low, high)
    every = [0.0, *(sign * 10.0**power for power in range(2, 8) for sign in (-1, 1))]
    return [tick for tick in every if low <= np.arcsinh(tick / LINEAR) <= high]
