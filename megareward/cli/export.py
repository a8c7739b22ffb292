"""`megareward export RUN`."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from megareward.cli.parsing import parse
from megareward.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class ExportArgs:
    """Write a small copy of a run, to move it to another machine. It is a run folder that `eval` and `watch` accept."""

    run: tyro.conf.Positional[Path]
    """Folder of the run."""
    small: bool = False
    """Keep what `resume` needs to continue training, in half precision where that is safe."""
    policy_only: bool = False
    """Keep only what playing needs; the copy cannot be resumed."""
    to_watch: bool = False
    """Keep only what playing and drawing control maps need, with a note on its origin; the copy cannot be resumed."""
    out: Path | None = None
    """Folder of the copy, or one file if the name ends in .tar, .tar.gz, .tgz or .zip. [default: RUN-small, RUN-policy
    or RUN-watch]"""


def command(words: list[str]) -> int:
    args: ExportArgs = parse(ExportArgs, words, "export")
    asked = {"small": args.small, "policy": args.policy_only, "watch": args.to_watch}
    if sum(asked.values()) != 1:
        raise UsageError(
            "What is it for? `megareward export RUN` needs --small (to resume), --policy-only (to play) or --to-watch."
        )
    from megareward.runs.folder import PACKED
    from megareward.training.export import export_run, pack_run

    [kind] = [name for name, wanted in asked.items() if wanted]
    out = args.out or args.run.parent / f"{args.run.name}-{kind}"
    is_packed = out.name.endswith(tuple(PACKED))
    done = (pack_run if is_packed else export_run)(args.run, out, kind)
    whole, largest = sum(done.files.values()) / 1e6, max(done.files.values()) / 1e6
    parts = "one file" if is_packed else f"{len(done.files)} files, the largest of {largest:.1f} MB"
    print(f"Wrote {done.path}: {whole:.1f} MB in {parts}.")
    print(f"Lost: {done.lost}.")
    return 0
