"""`megareward resume RUN`."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from megareward.cli.parsing import Count, Device, load_torch, parse
from megareward.cli.run_options import RunOptions, print_summary


@dataclass(frozen=True, kw_only=True)
class ResumeArgs(RunOptions):
    """Continue a run from its newest whole checkpoint."""

    run: tyro.conf.Positional[Path]
    """Folder of the run."""
    frames: Count | None = None
    """New total length in frames, such as 20M; it also extends a finished run. Schedules that decay follow the new
    length, the warm-up stays as it was. [default: as it was started]"""
    device: Device | None = None
    """Move the run to another device. [default: as it was started]"""


def command(words: list[str]) -> int:
    args: ResumeArgs = parse(ResumeArgs, words, "resume")
    load_torch()

    from megareward.training.run import resume

    folder = resume(args.run, frames=args.frames, device=args.device, **args.keywords())
    if not args.quiet:
        print_summary(folder.path)
    return 0
