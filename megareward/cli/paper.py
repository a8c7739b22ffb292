"""`megareward paper`, `megareward paper run [ITEM]`, `megareward paper build` and `megareward paper next`."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import tyro

from megareward.analysis.results import LEDGER
from megareward.cli.parsing import parse
from megareward.errors import RunError, UsageError
from megareward.experiments.carried import Store
from megareward.experiments.claims import STALE_MINUTES
from megareward.experiments.plans import Device
from megareward.experiments.ray_engine import RayEngine
from megareward.experiments.runner import Engine, Job, on_this_machine
from megareward.paper.items import BUDGETS, ITEMS, Budget, find_items
from megareward.paper.page import build as build_page
from megareward.paper.queue import Queue, counted, jobs_of
from megareward.paper.recorded import Recorded
from megareward.paper.work import claims_folder, make, make_one

USAGE = """usage: megareward paper [list|run|build|next] [OPTIONS]

list           every table and figure of the paper, and how many of its runs are recorded
run [ITEM]     make the runs that are missing, of one item or of all
build          write the page of all tables and figures from the records alone
next --claim   hand out one missing run, which no other process gets

`megareward paper run --help` explains one."""


@dataclass(frozen=True, kw_only=True)
class Places:
    budget: Literal["smoke", "small", "full"] = "full"
    """smoke: mini games for a few thousand frames, minutes on two cores. small: mini games at full length and Atari for
    10M frames. full: Atari for the paper's 80M frames."""
    results: Path | None = None
    """Folder of the records. [default: results/experiments; for smoke, runs/paper-smoke/results]"""

    @property
    def plan(self) -> Budget:
        return BUDGETS[self.budget]

    @property
    def records(self) -> Path:
        return self.results or self.plan.results

    def recorded(self) -> Recorded:
        return Recorded([self.records, *self.others()])

    def others(self) -> list[Path]:
        """The ledger of single runs, which counts too if the records are those of the checkout."""
        return [LEDGER] if self.results is None and self.budget != "smoke" else []


@dataclass(frozen=True, kw_only=True)
class ListArgs(Places):
    """List every table and figure of the paper with how many of its runs are recorded."""


@dataclass(frozen=True, kw_only=True)
class BuildArgs(Places):
    """Write the page of all tables and figures, as HTML and Markdown, from the records alone."""

    out: Path | None = None
    """Folder of the page. [default: docs/paper-page; for smoke, runs/paper-smoke/page]"""


def listed(words: list[str]) -> int:
    args: ListArgs = parse(ListArgs, words, "paper list")
    recorded = args.recorded()
    for item in ITEMS.values():
        done, planned = counted(item, args.plan, recorded)
        print(f"{item.name:15} {done:4} of {planned:4} runs  {item.title} ({item.place})")
    return 0


def build(words: list[str]) -> int:
    args: BuildArgs = parse(BuildArgs, words, "paper build")
    usual = Path("docs") / "paper-page" if args.budget != "smoke" else args.plan.results.parent / "page"
    written = build_page(args.plan, args.records, args.others(), args.out or usual)
    print(f"Wrote {written[0]}, {written[1]} and {len(written) - 2} figures.")
    return 0


@dataclass(frozen=True, kw_only=True)
class WorkArgs(Places):
    runs: Path | None = None
    """Folder that holds the folders of the runs. [default: runs/experiments; for smoke, runs/paper-smoke/runs]"""
    device: Device = "cpu"
    """Device for runs that are not recorded yet."""

    @property
    def folder(self) -> Path:
        return self.runs or self.plan.runs

    def jobs(self, item: str) -> list[Job]:
        return jobs_of(find_items(item), self.plan, self.folder, self.records, self.device)


@dataclass(frozen=True, kw_only=True)
class RunArgs(WorkArgs):
    """Make the missing runs, seed 0 of every cell first. The command may be stopped and restarted at any time, and may
    run on several machines at once if they share the folders."""

    item: tyro.conf.Positional[str] = ""
    """Table or figure whose runs to make. [default: all]"""
    jobs_at_a_time: Annotated[int, tyro.conf.arg(name="jobs")] = 0
    """Runs at a time, each in a process of its own; 0: one per core."""
    minutes: float | None = None
    """Stop each run after this many minutes of training; the next start continues it."""
    on: Literal["local", "ray"] = "local"
    """local: processes of this machine. ray: tasks of a Ray cluster whose machines share the folders, unless there is a
    --store (needs the extra `ray`)."""
    ray_address: str | None = None
    """Address of an existing cluster, such as auto or ray://head:10001. [default: Ray on this machine alone]"""
    cpus: float = 1.0
    """--on ray: cores per run."""
    gpus: float = 0.0
    """--on ray: share of a GPU per run, such as 0.25."""
    store: str | None = None
    """--on ray, if the machines share no folder: URL of a store for unfinished runs, of any kind that fsspec can open,
    such as s3://bucket/sweep. [default: the machines share --runs and --results]"""
    unit: str = ""
    """Make only this run; `megareward paper next --claim` prints its name."""

    def engine(self) -> Engine:
        if self.on == "ray":
            return RayEngine(self.ray_address, self.cpus, self.gpus, Store(self.store) if self.store else None)
        return partial(on_this_machine, at_a_time=self.jobs_at_a_time or os.cpu_count() or 1)


@dataclass(frozen=True, kw_only=True)
class NextArgs(WorkArgs):
    """Print the name of the next missing run. Exit status 1: every run is recorded or claimed by another process."""

    item: tyro.conf.Positional[str] = ""
    """Table or figure that needs the run. [default: all]"""
    claim: bool = False
    """Claim the run, so that no other process gets it."""
    stale_minutes: float = STALE_MINUTES
    """Hand out a claimed run again if its claim was not renewed for this long."""


def run(words: list[str]) -> int:
    args: RunArgs = parse(RunArgs, words, "paper run")
    if args.jobs_at_a_time < 0:
        raise UsageError(f"--jobs is {args.jobs_at_a_time}; use 0 (one per core) or more.")
    if args.minutes is not None and not args.minutes > 0:
        raise UsageError(f"--minutes is {args.minutes:g}; it must be above 0.")
    if args.cpus <= 0 or args.gpus < 0:
        raise UsageError(f"--cpus is {args.cpus:g} and --gpus {args.gpus:g}; use more than 0, and 0 or more.")
    if args.store and args.on != "ray":
        raise UsageError(f"--store {args.store} carries runs between machines of a Ray cluster; add --on ray.")
    jobs = [replace(job, minutes=args.minutes) for job in args.jobs(args.item)]
    if args.unit:
        make_one(jobs, args.unit, claims_folder(args.folder))
        return 0
    queue = Queue(jobs, args.recorded(), claims_folder(args.folder))
    failed = make(queue, len(jobs), args.engine())
    if failed:
        raise RunError(f"{len(failed)} runs failed, the first is {failed[0].name}; start the command again to retry.")
    print(f"`megareward paper build --budget {args.budget}` makes the page of them.")
    return 0


def following(words: list[str]) -> int:
    args: NextArgs = parse(NextArgs, words, "paper next")
    jobs, folder = args.jobs(args.item), claims_folder(args.folder)
    queue = Queue(jobs, args.recorded(), folder, stale_minutes=args.stale_minutes, for_another=True)
    job = next(iter(queue if args.claim else queue.jobs), None)
    if job is None:
        raise RunError("Every run is recorded, or claimed by another process.")
    print(job.name)
    return 0


FORMS: dict[str, Callable[[list[str]], int]] = {"list": listed, "build": build, "run": run, "next": following}


def command(words: list[str]) -> int:
    if {"-h", "--help"} & set(words[:1]):
        print(USAGE)
        return 0
    form = words[0] if words and not words[0].startswith("-") else "list"
    if form not in FORMS:
        raise UsageError(f"There is no 'paper {form}'; use one of {', '.join(FORMS)}.")
    return FORMS[form](words[1:] if words[:1] == [form] else words)
