"""Runs of a few seconds, and what of their records does not depend on when and where they were made."""

from dataclasses import replace
from pathlib import Path

from megareward.experiments.plans import Cell
from megareward.experiments.runner import Job, record_path
from megareward.runs.record import Record
from megareward.training.config import TrainConfig
from megareward.training.presets import with_preset


def jobs(folder: Path, number: int, frames: int, minutes: float | None = None) -> list[Job]:
    made = []
    for seed in range(number):
        config = TrainConfig("rnd", "mini-breakout", frames=frames, seed=seed, device="cpu", g_channel="no")
        config = replace(with_preset(config, "debug"), frames=frames)
        cell = Cell("rnd", "mini-breakout", config)
        made.append(Job(cell, folder / "runs", folder / "results", minutes=minutes))
    return made


def learnt(job: Job) -> dict:
    """All of a record but when and where it was made."""
    record = Record.read(record_path(job.results, job.cell))
    return vars(replace(record, provenance={}, processes=[], seconds=None))
