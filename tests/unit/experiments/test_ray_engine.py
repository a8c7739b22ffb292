"""The same sweep on Ray as on this machine, also when one of its machines dies."""

import importlib.util
import threading
import time
from functools import partial

import pytest

from megareward.cli import main
from megareward.experiments.carried import Store
from megareward.experiments.ray_engine import RayEngine
from megareward.experiments.runner import do_all, on_this_machine
from tests.unit.experiments.small_jobs import jobs, learnt

HAS_RAY = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not HAS_RAY, reason="Ray is not installed; pip install megareward[ray]")


@needs_ray
@pytest.mark.slow
def test_a_sweep_outlives_a_node_and_its_records_are_those_of_one_machine(tmp_path):
    import ray
    from ray.cluster_utils import Cluster

    here = jobs(tmp_path / "local", 12, 480)
    assert do_all(here, 12, partial(on_this_machine, at_a_time=2), str) == []

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    doomed = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        there, said, killed = jobs(tmp_path / "ray", 12, 480), [], threading.Event()

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


@needs_ray
@pytest.mark.slow
def test_machines_that_share_no_folder_carry_their_runs_through_a_store(tmp_path):
    import ray

    [job] = jobs(tmp_path / "ray", 1, 480)
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        assert do_all([job], 1, RayEngine(store=Store((tmp_path / "store").as_uri())), str) == []
    finally:
        ray.shutdown()
    assert not job.runs.exists()
    assert len(list((tmp_path / "store").glob("*.tar"))) == 1
    [here] = jobs(tmp_path / "local", 1, 480)
    assert do_all([here], 1, partial(on_this_machine, at_a_time=1), str) == []
    assert learnt(job) == learnt(here)


@pytest.mark.skipif(HAS_RAY, reason="Ray is installed")
def test_without_ray_the_remedy_is_named(tmp_path, capsys):
    words = ["--budget", "smoke", "--results", str(tmp_path), "--runs", str(tmp_path / "runs"), "--on", "ray"]
    assert main(["paper", "run", "grid", *words]) == 2
    assert "pip install megareward[ray]" in capsys.readouterr().err
