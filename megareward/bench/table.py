"""Records of benchmarks as tables for the documentation."""

import json
from pathlib import Path
from typing import Any

from megareward.analysis.published import HOURS_FOR_80M
from megareward.errors import UsageError

HEAD = ("game", "method", "envs", "groups", "cells", "features", "emulator", "training", "ratio", "GPU MiB", "record")


def records_in(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """(file, record) of every measured training, in the order of the files; other files are skipped."""
    found = []
    for file in sorted(folder.glob("*.json")):
        content = json.loads(file.read_text())
        for record in content if isinstance(content, list) else [content]:
            if isinstance(record, dict) and "ratio_to_emulator" in record:
                found.append((file.name, record))
    return found


def markdown(folder: Path) -> str:
    """Table of frames per second; a dash for what a record does not have."""
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


def running_times(record: Path) -> str:
    """A record of `bench methods` as the paper's table of running times, the slowest method first."""
    if not record.is_file():
        raise UsageError(f"{record} is no file; name a record, as `megareward bench methods --json` writes.")
    rows = [
        (
            "method",
            "frames/s",
            "of the emulator's",
            "minutes for 80M frames",
            "times Ex-PPO",
            "paper: hours",
            "times Ex-PPO",
        ),
        ("---",) * 7,
    ]
    speeds = sorted(json.loads(record.read_text()), key=lambda speed: speed["train_frames_per_s"])
    ex_ppo = next((speed["train_frames_per_s"] for speed in speeds if speed["method"] == "extrinsic"), None)
    for speed in speeds:
        own, theirs = speed["train_frames_per_s"], HOURS_FOR_80M.get(speed["method"])
        rows.append(
            (
                speed["method"],
                f"{own:,.0f}",
                f"{speed['ratio_to_emulator']:.2f}",
                f"{80e6 / own / 60:.1f}",
                "-" if ex_ppo is None else f"{ex_ppo / own:.2f}",
                "-" if theirs is None else f"{theirs:.1f}",
                "-" if theirs is None else f"{theirs / HOURS_FOR_80M['extrinsic']:.2f}",
            )
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
