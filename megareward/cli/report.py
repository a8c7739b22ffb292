"""`megareward report RUN...`."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from megareward.cli.parsing import Device, load_torch, parse
from megareward.errors import warn
from megareward.progress import Bar
from megareward.runs.durable import check_place


@dataclass(frozen=True)
class ReportArgs:
    """Write one HTML page about a run, or about several side by side. Seeds of one experiment become one line."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of the runs."""
    out: Path | None = None
    """Path of the page. [default: RUN/report.html; for several runs, report.html in the folder that holds them]"""
    watch: bool = False
    """First write the page of `megareward watch` for every run that has none."""
    steps: int = 1000
    """Decisions to record for --watch."""
    device: Device = "auto"
    """Device that plays for --watch."""


def command(words: list[str]) -> int:
    args: ReportArgs = parse(ReportArgs, words, "report")
    from megareward.viewer.report import PAGE, write_report

    if args.watch:
        load_torch()

        from megareward.training.run import pick_device
        from megareward.viewer.watch import record, write_watch

        for run in args.runs:
            if not (run / PAGE).exists():
                check_place(run / PAGE)
                device = pick_device(args.device)
                write_watch(record(run, steps=args.steps, device=device, warn=warn, progress=Bar("steps played")), run)
    print(f"Wrote {write_report(args.runs, args.out)}.")
    return 0
