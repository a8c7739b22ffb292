"""Line charts and bars as SVG text: no script, no network, sharp in print, and with the reader's colours."""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

STYLES = (
    *(("#0a7884", ""), ("#c4620a", "7 4"), ("#5b4fb0", "2 3"), ("#a8326e", "9 3 2 3"), ("#4c7a1e", "12 4")),
    *(("#2b62c9", "16 3"), ("#7a5c00", "4 4 1 4"), ("#8a3b3b", "1 2"), ("#555b66", "6 2 1 2 1 2"), ("#00916e", "3 6")),
)
"""Colour and dash of each line: no two differ by colour alone."""


@dataclass(frozen=True)
class Line:
    """One curve with its interval; x is increasing."""

    name: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


@dataclass(frozen=True)
class Level:
    """A horizontal line to compare with."""

    name: str
    y: float


WIDE, NARROW = 760, 400
"""Widths of charts. Text has the same size in both; narrow charts, for phones, have the names below."""


def fitting(draw: Callable[..., str]) -> str:
    """A chart drawn twice, for wide windows and for phones; the style sheet shows one. `draw` takes the `width`."""
    return f'<div class="on-wide">{draw(width=WIDE)}</div><div class="on-narrow">{draw(width=NARROW)}</div>'


def line_chart(
    lines: Sequence[Line],
    levels: Sequence[Level] = (),
    *,
    label: str,
    x_name: str = "frames",
    width: int = WIDE,
    height: int = 320,
    dots: Sequence[tuple[np.ndarray, np.ndarray]] = (),
) -> str:
    """Curves side by side. A level far outside of the curves is written at the edge instead of flattening them."""
    names_wide = 8 * max(len(name) for name in [*(line.name for line in lines), *(f"{v.name} 00000" for v in levels)])
    below = width <= NARROW
    left, right, top, bottom = (42, 14, 16, 38) if below else (58, min(24 + names_wide, 260), 16, 38)
    values = np.concatenate([a for line in lines for a in (line.y, line.low, line.high) if a is not None])
    values = np.concatenate([values, *(scores for _, scores in dots)])  # the axis must contain every game
    low, high = _range(values, [level.y for level in levels])
    end = max(float(line.x[-1]) for line in lines)
    inner_w, inner_h = width - left - right, height - top - bottom

    def px(x: np.ndarray | float) -> np.ndarray:
        return left + np.asarray(x) / end * inner_w

    def py(y: np.ndarray | float) -> np.ndarray:
        return top + (high - np.asarray(y)) / (high - low) * inner_h

    whole = height + (len(lines) + len(levels)) * 18 * below
    parts = [f'<svg viewBox="0 0 {width} {whole}" role="img" aria-label="{html.escape(label)}">']
    for tick in ticks(low, high):
        y = float(py(tick))
        parts.append(f'<line class="grid" x1="{left}" x2="{left + inner_w}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{left - 7}" y="{y + 4:.1f}" text-anchor="end">{number(tick)}</text>')
    for tick in ticks(0.0, end, 4 if below else 5):
        x, foot = float(px(tick)), height - bottom + 17
        parts.append(f'<text class="tick" x="{x:.1f}" y="{foot}" text-anchor="middle">{number(tick)}</text>')
    parts.append(f'<text class="tick" x="{left + inner_w / 2}" y="{height - 4}" text-anchor="middle">{x_name}</text>')
    for frames, scores in dots:
        places = zip(px(frames), py(scores), strict=True)
        spots = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in places)
        parts.append(f'<path class="dots" d="{spots}"/>')
    names: list[tuple[float, str]] = []
    for level in levels:
        beyond = "↑ " if level.y > high else "↓ " if level.y < low else ""
        y = float(py(np.clip(level.y, low, high)))
        if not beyond:
            parts.append(f'<line class="level" x1="{left}" x2="{left + inner_w}" y1="{y:.1f}" y2="{y:.1f}"/>')
        names.append((y, f'<tspan class="faint">{beyond}{html.escape(level.name)} {number(level.y)}</tspan>'))
    for i, line in enumerate(lines):
        colour, dash = STYLES[i % len(STYLES)]
        if line.low is not None and line.high is not None:
            there = _points(px(line.x), py(line.high))
            back = _points(px(line.x)[::-1], py(line.low)[::-1])
            parts.append(f'<path d="M{there}L{back}Z" fill="{colour}" class="band"/>')
        points = _points(px(line.x), py(line.y))
        parts.append(f'<path class="line" d="M{points}" stroke="{colour}" stroke-dasharray="{dash}"/>')
        parts += _spots(line, px(line.x), py(line.y), x_name)
        shown = line.name if len(line.name) <= 30 else line.name[:29] + "…"
        name = f'<tspan fill="{colour}" class="name">{html.escape(shown)}</tspan>'
        names.append((float(py(line.y[-1])), name))
    if below:
        parts += [
            f'<text x="{left}" y="{height + 12 + 18 * i}">{name}</text>' for i, (_, name) in enumerate(sorted(names))
        ]
    else:
        parts += [
            f'<text x="{left + inner_w + 8}" y="{y + 4:.1f}">{name}</text>'
            for y, name in _apart(names, top, height - bottom)
        ]
    return "".join([*parts, "</svg>"])


def _spots(line: Line, x: np.ndarray, y: np.ndarray, x_name: str, most: int = 40) -> list[str]:
    """Invisible spots along a line that show their numbers as tooltips."""
    every = max(1, len(x) // most)
    spots = []
    for i in range(0, len(x), every):
        band = ""
        if line.low is not None and line.high is not None and np.isfinite(line.low[i]):
            band = f" ({number(float(line.low[i]))} to {number(float(line.high[i]))})"
        words = f"{line.name}: {number(float(line.y[i]))}{band} at {number(float(line.x[i]))} {x_name}"
        title = f"<title>{html.escape(words)}</title>"
        place = f'cx="{x[i]:.1f}" cy="{y[i]:.1f}" r="7" fill="none" pointer-events="all"'
        spots.append(f'<circle class="spot" {place}>{title}</circle>')
    return spots


def spark_chart(lines: Sequence[tuple[int, Line]], *, label: str, width: int = 200, height: int = 52) -> str:
    """Curves the size of a word, each given with the number of its style."""
    values = np.concatenate([line.y for _, line in lines])
    low, high = float(values.min()), float(values.max())
    end, span = max(float(line.x[-1]) for _, line in lines) or 1.0, (high - low) or 1.0
    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(label)}">']
    parts.append(f"<title>{html.escape(label)}; from {number(low)} to {number(high)}</title>")
    for i, line in lines:
        colour, dash = STYLES[i % len(STYLES)]
        points = _points(line.x / end * (width - 4) + 2, 3 + (high - line.y) / span * (height - 6))
        parts.append(f'<path class="line" d="M{points}" stroke="{colour}" stroke-dasharray="{dash}"/>')
    return "".join([*parts, "</svg>"])


def standing(
    ours: Sequence[tuple[str, float]], others: Sequence[tuple[str, float]], *, label: str, width: int = WIDE
) -> str:
    """Scores on one axis from the lowest to the highest: ours are diamonds named above it, the others ticks below."""
    left, line = 20, 17
    scores = [score for _, score in [*ours, *others]]
    low, span = min(scores), (max(scores) - min(scores)) or 1.0
    above, below = (_rows(marks, low, span, width, left) for marks in (ours, others))
    axis = 14 + line * len(above)
    parts = [f'<line class="grid" x1="{left}" x2="{width - left}" y1="{axis}" y2="{axis}"/>']
    styles = {name: STYLES[i % len(STYLES)][0] for i, (name, _) in enumerate(ours)}
    for rows, towards, start in ((above, -1, axis - 14), (below, 1, axis + 23)):
        for i, row in enumerate(rows):
            for name, score, x, anchor in row:
                y, colour = start + towards * line * i, styles.get(name) if towards < 0 else None
                shape = f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{axis - 5}" y2="{axis + 8}"/>'
                look = 'class="faint"'
                if colour:
                    shape = f'<path fill="{colour}" d="M{x:.1f} {axis - 8}l8 8-8 8-8-8z"/>'
                    look = f'class="name" fill="{colour}"'
                words = f"{html.escape(name)} {number(score)}"
                parts.append(f'{shape}<text {look} x="{x:.1f}" y="{y}" text-anchor="{anchor}">{words}</text>')
    height = axis + 12 + line * len(below)
    head = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(label)}">'
    return "".join([head, *parts, "</svg>"])


def _rows(
    marks: Sequence[tuple[str, float]], low: float, span: float, width: int, left: int
) -> list[list[tuple[str, float, float, str]]]:
    """(name, score, x, anchor) of every mark, in enough rows that no words overlap."""
    rows: list[list[tuple[str, float, float, str]]] = []
    ends: list[float] = []
    for name, score in sorted(marks, key=lambda mark: mark[1]):
        x = left + (score - low) / span * (width - 2 * left)
        wide = 7.4 * len(f"{name} {number(score)}")
        anchor, start = ("start", x) if x < width / 2 else ("end", x - wide)
        free = next((i for i, end in enumerate(ends) if start > end + 10), None)
        if free is None:
            rows.append([])
            ends.append(0.0)
            free = len(rows) - 1
        rows[free].append((name, score, x, anchor))
        ends[free] = start + wide
    return rows


def share_bar(shares: Sequence[tuple[str, float]], *, label: str, width: int = WIDE) -> str:
    """A bar of the parts of a whole, side by side; large ones are named."""
    total = sum(value for _, value in shares) or 1.0
    parts, x = [f'<svg viewBox="0 0 {width} 34" role="img" aria-label="{html.escape(label)}">'], 0.0
    for i, (name, value) in enumerate(shares):
        wide = value / total * width
        parts.append(f'<rect class="share s{i % 2}" x="{x:.1f}" y="0" width="{max(wide - 1.5, 0):.1f}" height="34"/>')
        if wide > 9 * len(name) + 34:
            text = f"{html.escape(name)} {value / total:.0%}"
            parts.append(f'<text class="on-share" x="{x + 9:.1f}" y="22">{text}</text>')
        x += wide
    return "".join([*parts, "</svg>"])


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between two others."""
    rough = (high - low) / about
    size = 10.0 ** np.floor(np.log10(rough))
    step = next(size * unit for unit in (1, 2, 5, 10) if size * unit >= rough)
    found = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
    return [float(tick) + 0.0 for tick in found]


def number(value: float) -> str:
    """12345678 -> 12.3M, 40000 -> 40k, 1234.5 -> 1,234; with a true minus sign."""
    size = abs(value)
    if size >= 1e6:
        text = f"{size / 1e6:.3g}M"
    elif size >= 1e4 and size % 1000 == 0:
        text = f"{size / 1e3:.0f}k"
    else:
        text = f"{size:,.0f}" if size >= 1000 else f"{size:.3g}"
    return f"−{text}" if value < 0 and text != "0" else text


def _range(values: np.ndarray, levels: Sequence[float]) -> tuple[float, float]:
    """The range of the curves; a level may extend it to at most twice that."""
    low, high = float(values.min()), float(values.max())
    span = (high - low) or max(abs(high), 1.0)
    for level in levels:
        if low - span <= level <= high + span:
            low, high = min(low, level), max(high, level)
    room = 0.05 * ((high - low) or span)
    return low - room, high + room


def _points(x: np.ndarray, y: np.ndarray) -> str:
    return "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))


def _apart(names: list[tuple[float, str]], top: float, bottom: float, line: float = 16) -> list[tuple[float, str]]:
    """Labels moved so that none covers another and none leaves the chart."""
    ordered = sorted(names, key=lambda entry: entry[0])
    places: list[float] = []
    for y, _ in ordered:
        places.append(max(y, places[-1] + line) if places else max(y, top))
    for i in range(len(places) - 1, -1, -1):  # push back what fell out at the bottom
        places[i] = min(places[i], bottom if i == len(places) - 1 else places[i + 1] - line)
    return list(zip(places, (name for _, name in ordered), strict=True))
