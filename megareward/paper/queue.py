"""The runs that items need, in the order in which they tell most soonest."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from megareward.experiments.claims import Claim, claim
from megareward.experiments.plans import Cell, Device
from megareward.experiments.runner import Job
from megareward.paper.items import ITEMS, Budget, Item
from megareward.paper.recorded import Recorded
from megareward.training.config import bearing, to_dict


def settings_of(cell: Cell) -> str:
    """Equal for runs that are the same."""
    return json.dumps(bearing(to_dict(cell.config)), sort_keys=True)


def jobs_of(items: Iterable[Item], budget: Budget, runs: Path, results: Path, device: Device = "cpu") -> list[Job]:
    """The runs that these items need, each once. Seed 0 of every cell comes before seed 1 of any, and among these short
    runs before long ones.

    A run that several items need belongs to the first of all items and gets all that any of them asks of it, whichever
    were chosen, so that processes with other choices agree on its place.
    """
    jobs: dict[str, Job] = {}
    for item in ITEMS.values():
        for experiment in item.planned(budget):
            for cell in experiment.cells(device=device):
                key = settings_of(cell)
                job = jobs.get(key) or Job(cell, runs / experiment.name, results / experiment.name)
                if item.is_audited and cell.config.tracks_control:
                    job = replace(job, audit=budget.audit)
                if item.has_picture and cell.config.seed == 0:
                    job = replace(job, picture=budget.picture)
                jobs[key] = job
    chosen = {settings_of(cell) for item in items for cell in item.cells(budget)}
    return sorted(
        (job for key, job in jobs.items() if key in chosen),
        key=lambda job: (job.cell.config.seed, job.cell.config.frames),
    )


class Queue:
    """The jobs that are neither recorded nor somebody else's, each claimed as it is taken."""

    def __init__(self, jobs: list[Job], recorded: Recorded, claims: Path, **claiming: Any) -> None:
        self.jobs = [job for job in jobs if not is_recorded(job, recorded)]
        self._folder, self._claiming = claims, claiming
        self.claims: dict[str, Claim] = {}
        """Those held now, by the job's name."""

    def __iter__(self) -> Iterator[Job]:
        for job in self.jobs:
            if job.is_done() or not (mine := claim(self._folder, claim_name(job), **self._claiming)):
                continue
            if job.is_done():  # it was, in the moment before the claim
                mine.release()
                continue
            self.claims[job.name] = mine
            yield job


def claim_name(job: Job) -> str:
    return job.name.replace("/", "--")


def is_recorded(job: Job, recorded: Recorded) -> bool:
    return any(job.is_whole(found.record, found.path) for found in recorded.find(job.cell))


def counted(item: Item, budget: Budget, recorded: Recorded) -> tuple[int, int]:
    """How many runs of an item are recorded as planned, and how many are planned."""
    cells = {settings_of(cell): cell for cell in item.cells(budget)}
    return sum(any(recorded.find(cell)) for cell in cells.values()), len(cells)
