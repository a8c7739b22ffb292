"""`megareward export RUN`."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from megareward.cli.parsing import parse
from megareward.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class ExportArgs:
    """Write a copy of a run that is small enough to carry. It is a run's folder, which `eval` and `watch` take."""

    run: tyro.conf.Positional[Path]
    """Folder of the run."""
    small: bool = False
    """Everything that training needs to go on (`resume`), in half precision where that is safe."""
    policy_only: bool = False
    """Only what it takes to play; it cannot be resumed."""
    to_watch: bool = False
    """Only what it takes to play and to draw control maps, with a line about its origin; it cannot be resumed."""
    out: Path | None = None
    """Folder of the copy. [default: RUN-small, RUN-policy or RUN-watch]"""


def command(words: list[str]) -> int:
    args: ExportArgs = parse(ExportArgs, words, "export")
    asked = {"small": args.small, "policy": args.policy_only, "watch": args.to_watch}
    if sum(asked.values()) != 1:
        raise UsageError(
            "What is it for? `megareward export RUN` needs --small (to resume), --policy-only (to play) or --to-watch."
        )
    from megareward.training.export import export_run

    [kind] = [name for name, wanted in asked.items() if wanted]
    done = export_run(args.run, args.out or args.run.parent / f"{args.run.name}-{kind}", kind)
    whole, largest = sum(done.files.values()) / 1e6, max(done.files.values()) / 1e6
    print(f"Wrote {done.path}: {whole:.1f} MB in {len(done.files)} files, the largest of {largest:.1f} MB.")
    print(f"Lost: {done.lost}.")
    return 0
