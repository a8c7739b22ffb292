"""Blocks of the page: paragraphs, tables and figures, each as HTML and as Markdown."""

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from megareward.viewer.markup import table as html_table

MARKS = {
    "b": "of another budget: more frames than planned, or fewer",
    "s": "of other settings, besides the frames; the record has them",
    "t": "a game on which settings were chosen",
}
MISSING = "–"
ALONE = (
    "<style>svg{font:12px sans-serif;fill:#1b1d22;background:#fff}.tick,.faint{fill:#646a76}"
    ".grid{stroke:#dedcd4}.level{stroke:#646a76;stroke-dasharray:2 4}.line{fill:none;stroke-width:2.2}"
    ".band{opacity:.17}.whisker{stroke:#1b1d22;stroke-width:1.5}.name{font-weight:650}</style>"
)
"""Style of a drawing outside of the page."""


class Block(Protocol):
    def html(self) -> str: ...

    def markdown(self, figures: str) -> str:
        """The block as Markdown. `figures`: folder of the pictures, for links."""
        ...

    def files(self) -> dict[str, bytes]:
        """Files that the Markdown links to, by name."""
        ...


@dataclass(frozen=True)
class Text:
    words: str

    def html(self) -> str:
        return f"<p>{html.escape(self.words)}</p>"

    def markdown(self, figures: str) -> str:
        return self.words

    def files(self) -> dict[str, bytes]:
        return {}


@dataclass(frozen=True)
class Heading(Text):
    def html(self) -> str:
        return f"<h3>{html.escape(self.words)}</h3>"

    def markdown(self, figures: str) -> str:
        return f"**{self.words}**"


@dataclass(frozen=True)
class Number:
    """A cell of a table: our number with its interval, seeds, frames and marks, and the paper's number."""

    value: str = MISSING
    spread: str = ""
    """Its interval."""
    note: str = ""
    """Seeds and frames."""
    marks: str = ""
    """Letters from `MARKS`."""
    beside: str = ""
    """The paper's number."""
    records: tuple[Path, ...] = ()

    def html(self) -> str:
        if self.value == MISSING:
            shown = f'<span class="missing" title="not recorded">{MISSING}</span>'
        else:
            files = html.escape("\n".join(map(str, self.records)))
            shown = f'<b title="{files}">{html.escape(self.value)}</b>'
        marks = "".join(f'<sup title="{MARKS[mark]}">{mark}</sup>' for mark in self.marks)
        notes = [html.escape(note) for note in (self.spread, self.note, self.beside) if note]
        lines = [shown + marks, *(f'<small class="faint">{note}</small>' for note in notes)]
        return "<br>".join(lines)

    def markdown(self) -> str:
        own = " ".join(filter(None, [self.value, self.spread, *(f"<sup>{mark}</sup>" for mark in self.marks)]))
        notes = "; ".join(filter(None, [self.note, self.beside]))
        return f"{own} ({notes})" if notes else own


@dataclass(frozen=True)
class Table:
    head: Sequence[str]
    rows: Sequence[Sequence[str | Number]]

    def html(self) -> str:
        return html_table(self.head, [[_cell(cell) for cell in row] for row in self.rows])

    def markdown(self, figures: str) -> str:
        rows = [[c if isinstance(c, str) else c.markdown() for c in row] for row in self.rows]
        lines = [" | ".join(self.head), "|".join(["---"] * len(self.head)), *(" | ".join(row) for row in rows)]
        return "\n".join(f"| {line} |" if not line.startswith("---") else f"|{line}|" for line in lines)

    def files(self) -> dict[str, bytes]:
        return {}


def _cell(cell: str | Number) -> str:
    return html.escape(cell) if isinstance(cell, str) else cell.html()


@dataclass(frozen=True)
class Figure:
    """A drawing in SVG."""

    name: str
    caption: str
    svg: str

    def html(self) -> str:
        words = html.escape(self.caption)
        return f'<figure><div class="drawing">{self.svg}</div><figcaption>{words}</figcaption></figure>'

    def markdown(self, figures: str) -> str:
        return f"![{self.caption}]({figures}/{self.name}.svg)\n\n*{self.caption}*"

    def files(self) -> dict[str, bytes]:
        """The drawing as a file of its own, with its style for light pages."""
        alone = self.svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        end = alone.index(">") + 1
        return {f"{self.name}.svg": (alone[:end] + ALONE + alone[end:] + "\n").encode()}


@dataclass(frozen=True)
class Picture:
    """A drawing in pixels."""

    name: str
    caption: str
    png: bytes

    def html(self) -> str:
        data = base64.b64encode(self.png).decode()
        words = html.escape(self.caption)
        image = f'<img alt="{words}" src="data:image/png;base64,{data}">'
        return f'<figure><div class="drawing">{image}</div><figcaption>{words}</figcaption></figure>'

    def markdown(self, figures: str) -> str:
        return f"![{self.caption}]({figures}/{self.name}.png)\n\n*{self.caption}*"

    def files(self) -> dict[str, bytes]:
        return {f"{self.name}.png": self.png}
