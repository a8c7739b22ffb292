"""The page: every item from the records alone, as HTML and as Markdown."""

import html
from importlib import resources
from pathlib import Path

from megareward.experiments.table import count_of_seeds, frames_words
from megareward.paper.blocks import MARKS, MISSING, Block, Heading, Table
from megareward.paper.items import ITEMS, Budget, Item
from megareward.paper.queue import counted
from megareward.paper.recorded import Recorded
from megareward.runs.durable import save_file

TITLE = "Mega-Reward: every table and figure"
FIGURES = "figures"
STYLE = """
main { max-width: 1180px; } header { max-width: 1180px; }
section h2 small { color: var(--faint); font-weight: 400; font-size: .85rem; margin-left: 8px; }
figure { margin: 14px 0; } figcaption { font-size: .85rem; color: var(--faint); }
.drawing { overflow-x: auto; } .drawing svg { min-width: 560px; max-width: 860px; }
.drawing img { min-width: 560px; width: 100%; }
.whisker { stroke: var(--ink); stroke-width: 1.5; } .missing { color: var(--faint); }
td:first-child { position: sticky; left: 0; background: var(--card); padding-right: 10px; }
sup { color: var(--accent); margin-left: 2px; } td small { font-size: .74rem; }
.wide, .drawing { background: linear-gradient(to right, transparent, var(--card) 30px) right / 40px 100% local,
  linear-gradient(to left, var(--line), transparent) right / 14px 100% scroll; background-repeat: no-repeat; }
@media (max-width: 600px) {
  td:first-child { white-space: normal; min-width: 6.5em; max-width: 9em; }
  #recorded td:first-child { min-width: 11em; }
}
nav a { color: var(--accent); margin-right: 12px; white-space: nowrap; display: inline-block; }
@media (prefers-color-scheme: dark) { .bar { filter: brightness(1.3); } }
"""


def build(budget: Budget, results: Path, others: list[Path], out: Path) -> list[Path]:
    """Write index.html, paper.md and the figures into the folder `out`. Returns what was written.

    results: folder of the records and pictures of the experiments. others: more places of records.
    """
    recorded = Recorded([results, *others])
    sections = [(item, blocks(item, budget, recorded)) for item in ITEMS.values()]
    summary = overview(budget, recorded)
    files = {
        "index.html": html_page(budget, summary, sections).encode(),
        "paper.md": markdown_page(budget, summary, sections).encode(),
    }
    for _, parts in sections:
        files |= {f"{FIGURES}/{name}": data for part in parts for name, data in part.files().items()}
    for old in (out / FIGURES).glob("*"):
        if f"{FIGURES}/{old.name}" not in files:
            old.unlink()
    return [save_file(out / name, data) for name, data in files.items()]


def overview(budget: Budget, recorded: Recorded) -> Table:
    rows = []
    for item in ITEMS.values():
        done, planned = counted(item, budget, recorded)
        rows.append([item.title, f"{done} of {planned}", item.place])
    return Table(["item", "runs recorded", "in the paper"], rows)


def blocks(item: Item, budget: Budget, recorded: Recorded) -> list[Block]:
    found: list[Block] = []
    for where, view in item.views(budget, recorded):
        planned = f"{frames_words(view.experiment)}, {count_of_seeds(view.experiment.seeds)}"
        found.append(Heading(f"{where[0].upper()}{where[1:]}: planned are {planned}"))
        found += item.build(view)
    return found


def legend(budget: Budget) -> str:
    marks = "; ".join(f"{mark}: {words}" for mark, words in MARKS.items())
    return (
        f"Budget {budget.name}. A score is the mean raw score of the last 50 games of training, over the seeds, with a "
        f"95% bootstrap interval over them. {MISSING}: not recorded; {marks}. Below ours, the paper's own numbers. "
        "Point at a number to see its records."
    )


def html_page(budget: Budget, summary: Table, sections: list[tuple[Item, list[Block]]]) -> str:
    style = resources.files("megareward.viewer").joinpath("static/report.css").read_text(encoding="utf-8")
    body = [f'<section id="recorded"><h2>What is recorded</h2>{summary.html()}</section>']
    for item, parts in sections:
        title = f"{html.escape(item.title)} <small>{html.escape(item.place)}</small>"
        inner = "".join(part.html() for part in parts)
        body.append(f'<section id="{item.name}"><h2>{title}</h2>{inner}</section>')
    links = "".join(f'<a href="#{item.name}">{html.escape(item.title)}</a>' for item, _ in sections)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:"><meta name="color-scheme" content="light dark">'
        f"<title>{TITLE}</title><style>{style}{STYLE}</style></head><body>"
        f'<header><h1>{TITLE}</h1><p class="faint">{html.escape(legend(budget))}</p><nav>{links}</nav></header>'
        f"<main>{''.join(body)}</main></body></html>\n"
    )


def markdown_page(budget: Budget, summary: Table, sections: list[tuple[Item, list[Block]]]) -> str:
    parts = [f"# {TITLE}", legend(budget), "## What is recorded", summary.markdown(FIGURES)]
    for item, own in sections:
        parts += [f"## {item.title} ({item.place})", *(part.markdown(FIGURES) for part in own)]
    return "\n\n".join(parts) + "\n"
