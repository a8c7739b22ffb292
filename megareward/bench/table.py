"""Records of `bench train` and `bench growth` as a table for the documentation: no number is typed by hand."""

import json
from pathlib import Path
from typing import Any

from megareward.errors import UsageError

HEAD = ("game", "method", "envs", "groups", "cells", "features", "emulator", "training", "ratio", "GPU MiB", "record")


def records_in(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """(file, record) of every measured training, in the order of the files; what else lies there is passed over."""
    found = []
    for file in sorted(folder.glob("*.json")):
        content = json.loads(file.read_text())
        for record in content if isinstance(content, list) else [content]:
            if isinstance(record, dict) and "ratio_to_emulator" in record:
                found.append((file.name, record))
    return found


def markdown(folder: Path) -> str:
    """Frames per second; a dash where a record does not say."""
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is no folder; name one that holds records, as `megareward bench train --json` writes."
        )
    rows = [HEAD, ("---",) * len(HEAD)]
    for file, record in records_in(folder):
        memory = record.get("peak_gpu_mib")
        rows.append(
            (
                record["game"],
                record["method"],
                str(record["n_envs"]),
                str(record.get("groups", 1)),
                record.get("grid") or "-",
                str(record.get("features") or "-"),
                f"{record['emulator_frames_per_s']:,.0f}",
                f"{record['train_frames_per_s']:,.0f}",
                f"{record['ratio_to_emulator']:.2f}",
                "-" if memory is None else f"{memory:,.0f}",
                f"`{file}`",
            )
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
