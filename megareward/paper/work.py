"""Make the missing runs: give the queue of jobs to an engine."""

from collections.abc import Callable
from pathlib import Path

from megareward.errors import RunError, UsageError
from megareward.experiments.claims import Claim, claim, kept_alive, newest
from megareward.experiments.runner import STOPPED, Done, Engine, Job, Take, do_all, do_job
from megareward.paper.queue import Queue, claim_name

Say = Callable[[str], None]


def claims_folder(runs: Path) -> Path:
    return runs / "claims"


def make(queue: Queue, planned: int, engine: Engine, say: Say = print) -> list[Job]:
    """Do every job of the queue. Returns those that failed; after Ctrl-C everything can be resumed."""
    say(f"{planned - len(queue.jobs)} of {planned} runs are recorded; {len(queue.jobs)} to go.")
    held: list[Claim] = []

    def noted(take: Take, done: Done) -> None:
        def taken() -> Job | None:
            if job := take():
                held.append(queue.claims[job.name])
            return job

        def ended(job: Job, trouble: str) -> None:
            mine = queue.claims.pop(job.name)
            held.remove(mine)
            if trouble:
                mine.release()
            done(job, trouble)

        engine(taken, ended)

    with kept_alive(held):
        return do_all(queue, len(queue.jobs), noted, say)


def make_one(jobs: list[Job], name: str, claims: Path) -> None:
    """Do the one job that `megareward paper next --claim` has claimed."""
    chosen = [job for job in jobs if job.name == name]
    if not chosen:
        raise UsageError(f"There is no run '{name}' in this budget; `megareward paper next` names one.")
    [job] = chosen
    last = newest(claims, claim_name(job))
    held = Claim(last) if last else claim(claims, claim_name(job))
    held_now = [held] if held else []
    with kept_alive(held_now):
        trouble = do_job(job)
        if not trouble.startswith(STOPPED):
            held_now.clear()  # a failed job is tried again when its claim is stale, not at once
    if trouble:
        raise RunError(f"{job.name}: {trouble}")
