"""The runs that items need, ordered so that early results are the most useful."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from megareward.experiments.claims import Claim, claim
from megareward.experiments.plans import Cell, Device, Experiment
from megareward.experiments.runner import Job
from megareward.paper.items import ITEMS, Budget, Item
from megareward.paper.recorded import Recorded
from megareward.training.config import bearing, to_dict


def planned_runs(item: Item, budget: Budget, device: Device = "cpu") -> Iterator[tuple[str, Experiment, Cell]]:
    """The runs that an item needs, each with a key that is equal for runs that are the same."""
    for experiment in item.planned(budget):
        for column in experiment.columns:
            for row in experiment.rows:
                cells = experiment.cells_of(row, column, device)
                settings = json.dumps(bearing(to_dict(cells[0].config)), sort_keys=True)
                for cell in cells:
                    yield f"{settings}, seed {cell.config.seed}", experiment, cell


def jobs_of(items: Iterable[Item], budget: Budget, runs: Path, results: Path, device: Device = "cpu") -> list[Job]:
    """The runs that these items need, each once. Seed 0 of every cell comes before seed 1 of any, and among these short
    runs before long ones.

    A run that several items need belongs to the first of all items and gets everything that any of them asks for,
    whichever items were chosen, so that processes with different choices agree on its place.
    """
    jobs: dict[str, Job] = {}
    chosen, wanted = set(), {item.name for item in items}
    for item in ITEMS.values():
        for key, experiment, cell in planned_runs(item, budget, device):
            job = jobs.get(key) or Job(cell, runs / experiment.name, results / experiment.name)
            if item.is_audited and cell.config.tracks_control:
                job = replace(job, audit=budget.audit)
            if item.has_picture and cell.config.seed == 0:
                job = replace(job, picture=budget.picture)
            jobs[key] = job
            if item.name in wanted:
                chosen.add(key)
    left = (job for key, job in jobs.items() if key in chosen)
    return sorted(left, key=lambda job: (job.cell.config.seed, job.cell.config.frames))


class Queue:
    """The jobs that are neither recorded nor claimed by another process; each is claimed when it is taken."""

    def __init__(self, jobs: list[Job], recorded: Recorded, claims: Path, **claiming: Any) -> None:
        self.jobs = [job for job in jobs if not is_recorded(job, recorded)]
        self._folder, self._claiming = claims, claiming
        self.claims: dict[str, Claim] = {}
        """Claims held now, by the job's name."""

    def __iter__(self) -> Iterator[Job]:
        for job in self.jobs:
            if job.is_done() or not (mine := claim(self._folder, claim_name(job), **self._claiming)):
                continue
            if job.is_done():  # another process recorded it just before the claim
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
    cells = {key: cell for key, _, cell in planned_runs(item, budget)}
    return sum(any(recorded.find(cell)) for cell in cells.values()), len(cells)
