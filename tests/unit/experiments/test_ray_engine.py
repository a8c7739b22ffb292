"""The same sweep on Ray as on this machine, also when one of its machines dies."""

import importlib.util
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from megareward.cli import main
from megareward.experiments.plans import Cell
from megareward.experiments.ray_engine import RayEngine
from megareward.experiments.runner import Job, do_all, on_this_machine, record_path
from megareward.runs.record import Record
from megareward.training.config import TrainConfig
from megareward.training.presets import with_preset

HAS_RAY = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not HAS_RAY, reason="Ray is not installed; pip install megareward[ray]")


def jobs(folder: Path, number: int, frames: int) -> list[Job]:
    made = []
    for seed in range(number):
        config = TrainConfig("rnd", "mini-breakout", frames=frames, seed=seed, device="cpu", g_channel="no")
        config = replace(with_preset(config, "debug"), frames=frames)
        made.append(Job(Cell("rnd", "mini-breakout", config), folder / "runs", folder / "results"))
    return made


def learnt(job: Job) -> dict:
    """All of a record but when and where it was made."""
    record = Record.read(record_path(job.results, job.cell))
    return vars(replace(record, provenance={}, processes=[], seconds=None))


@needs_ray
@pytest.mark.slow
def test_a_sweep_outlives_a_node_and_its_records_are_those_of_one_machine(tmp_path):
    import ray
    from ray.cluster_utils import Cluster

    here = jobs(tmp_path / "local", 12, 960)
    assert do_all(here, 12, partial(on_this_machine, at_a_time=2), str) == []

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    doomed = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        there, said, killed = jobs(tmp_path / "ray", 12, 960), [], threading.Event()

        def say(text: str) -> None:
            said.append(text)
            if len(said) == 3 and not killed.is_set():
                time.sleep(1.0)  # into the middle of other runs
                cluster.remove_node(doomed, allow_graceful=False)
                killed.set()

        assert do_all(there, 12, RayEngine(cpus=1.0), say) == []
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert killed.is_set()
    assert len(said) == 12  # none is lost and none is reported twice
    assert [learnt(job) for job in there] == [learnt(job) for job in here]
    assert len(list((tmp_path / "ray" / "runs").glob("rnd-*"))) == 12


@pytest.mark.skipif(HAS_RAY, reason="Ray is installed")
def test_without_ray_the_remedy_is_named(tmp_path, capsys):
    words = ["--budget", "smoke", "--results", str(tmp_path), "--runs", str(tmp_path / "runs"), "--on", "ray"]
    assert main(["paper", "run", "grid", *words]) == 2
    assert "pip install megareward[ray]" in capsys.readouterr().err
