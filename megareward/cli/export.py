"""`megareward export RUN`."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from megareward.cli.parsing import parse
from megareward.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class ExportArgs:
    """Write a copy of a run that is small enough to carry. It is a run's folder, which `resume` and `eval` take."""

    run: tyro.conf.Positional[Path]
    """Folder of the run."""
    small: bool = False
    """Everything that training needs to go on, in half precision where that is safe."""
    policy_only: bool = False
    """Only what it takes to play; it cannot be resumed."""
    out: Path | None = None
    """Folder of the copy. [default: RUN-small, or RUN-policy]"""


def command(words: list[str]) -> int:
    args: ExportArgs = parse(ExportArgs, words, "export")
    if args.small == args.policy_only:
        raise UsageError(
            "What is it for? `megareward export RUN` needs --small (to resume) or --policy-only (to play)."
        )
    from megareward.training.export import export_run

    name = f"{args.run.name}-{'policy' if args.policy_only else 'small'}"
    done = export_run(args.run, args.out or args.run.parent / name, policy_only=args.policy_only)
    whole, largest = sum(done.files.values()) / 1e6, max(done.files.values()) / 1e6
    print(f"Wrote {done.path}: {whole:.1f} MB in {len(done.files)} files, the largest of {largest:.1f} MB.")
    print(f"Lost: {done.lost}.")
    return 0
