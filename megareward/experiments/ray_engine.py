"""The engine `ray`: jobs as tasks of a Ray cluster whose machines share the folders of runs and results, or a store.

A task only calls `runner.do_job`, or `carried.do_carried` if there is a store. A task whose worker or machine dies is
started again elsewhere and continues from the last checkpoint; what was done by then is not repeated. Ray's dashboard
shows each task by the run's name.
"""

from dataclasses import dataclass
from typing import Any

from megareward.errors import UsageError
from megareward.experiments.carried import Store, do_carried
from megareward.experiments.runner import Done, Job, Take, do_job
from megareward.runs.durable import save_file

RETRIES = 5
"""How often a run is started again after its worker died."""


@dataclass(frozen=True)
class RayEngine:
    """The `Engine` that runs jobs on a Ray cluster."""

    address: str | None = None
    """Address of an existing cluster; None: start one on this machine alone, and stop it at the end."""
    cpus: float = 1.0
    """Cores per run. As many runs are made at a time as fit into the cluster."""
    gpus: float = 0.0
    """Share of a GPU per run."""
    store: Store | None = None
    """Carries runs between machines; None: they share the folders."""

    def __call__(self, take: Take, done: Done) -> None:
        ray = import_ray()
        if self.store:
            self.store.check()
        started = not ray.is_initialized()
        if started:
            ray.init(address=self.address, log_to_driver=False)
        try:
            self._work(ray, take, done)
        finally:
            if started:
                ray.shutdown()  # tasks that run die with their workers and can be continued

    def _work(self, ray: Any, take: Take, done: Done) -> None:
        task, needs = ray.remote(do_task), {"num_cpus": self.cpus, "num_gpus": self.gpus, "max_retries": RETRIES}
        running: dict[Any, Job] = {}
        while True:
            while len(running) < self._room(ray) and (job := take()):
                running[task.options(name=job.name, **needs).remote(job.absolute(), self.store)] = job
            if not running:
                return
            finished, _ = ray.wait(list(running), timeout=10.0)
            for one in finished:
                job = running.pop(one)
                try:
                    trouble, files = ray.get(one)
                    for name, data in files.items():
                        save_file(job.results / name, data)
                except ray.exceptions.RayError as why:
                    trouble = f"{type(why).__name__} in its worker, after {RETRIES} retries; start again to go on"
                done(job, trouble)

    def _room(self, ray: Any) -> int:
        """Number of runs that fit into the cluster as it is now; at least 1."""
        there = ray.cluster_resources()
        shares = [there.get("CPU", 0.0) / self.cpus]
        if self.gpus:
            shares.append(there.get("GPU", 0.0) / self.gpus)
        return max(1, int(min(shares)))


def do_task(job: Job, store: Store | None) -> tuple[str, dict[str, bytes]]:
    return do_carried(job, store) if store else (do_job(job), {})


def import_ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError as missing:
        raise UsageError("--on ray needs Ray, which is not installed; `pip install megareward[ray]`.") from missing
    return ray
