"""`megareward results` and `megareward results add RUN`."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from megareward.analysis.results import LEDGER, add_run, table, usual_records
from megareward.cli.parsing import parse
from megareward.runs.record import read_records


@dataclass(frozen=True)
class TableArgs:
    """Tabulate the recorded runs beside published scores."""

    records: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Records, or folders that hold them. [default: the ledger and the experiments on Atari, under results/]"""


@dataclass(frozen=True)
class AddArgs:
    """Record a run in the ledger: scores, curve, settings, commit and hardware; no weights."""

    run: tyro.conf.Positional[Path]
    """Folder of the run."""
    ledger: Path = LEDGER
    """Folder of the ledger."""


def command(words: list[str]) -> int:
    if words and words[0] == "add":
        added: AddArgs = parse(AddArgs, words[1:], "results add")
        print(f"Wrote {add_run(added.run, added.ledger)}.")
        return 0
    args: TableArgs = parse(TableArgs, words, "results")
    print(table(read_records(args.records or usual_records())))
    return 0
