"""Work on a shared folder goes to one process at a time, also when processes are killed."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from megareward.experiments.claims import Claim, claim, kept_alive, newest

WORKER = """
import sys
from pathlib import Path
from megareward.experiments.claims import claim
folder, me = Path(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
for n in range(60):
    if claim(folder, f"unit-{n}", stale_minutes=10.0, for_another=True):
        print(f"unit-{n}", flush=True)
"""


def workers(folder: Path, number: int) -> list[subprocess.Popen]:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(folder), str(i)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(number)
    ]
    for worker in started:
        assert worker.stdout.readline() == "ready\n"
    for worker in started:  # all at once
        worker.stdin.write("go\n")
        worker.stdin.flush()
    return started


def test_eight_processes_never_get_the_same_unit(tmp_path):
    got = Counter(unit for worker in workers(tmp_path, 8) for unit in worker.communicate()[0].split())
    assert got == {f"unit-{n}": 1 for n in range(60)}


def test_what_killed_processes_held_is_handed_out_again_once(tmp_path):
    started = workers(tmp_path, 8)
    before = [worker.stdout.readline().strip() for worker in started[:2]]  # they hold something, or found nothing left
    for worker in started:
        worker.send_signal(signal.SIGKILL)
    lost = [unit for worker in started for unit in worker.communicate()[0].split()] + [unit for unit in before if unit]
    assert lost
    assert max(Counter(lost).values()) == 1
    for path in tmp_path.glob("unit-*"):
        os.utime(path, (0, 0))  # a long time passes
    got = Counter(unit for worker in workers(tmp_path, 8) for unit in worker.communicate()[0].split())
    assert got == {f"unit-{n}": 1 for n in range(60)}


def test_a_claim_is_its_holders_until_it_is_old_or_released(tmp_path):
    mine = claim(tmp_path, "a")
    assert claim(tmp_path, "a") is None
    assert claim(tmp_path, "a.1") is not None  # another name
    old = time.time() - 3600
    os.utime(mine.path, (old, old))
    assert claim(tmp_path, "a", stale_minutes=90) is None
    second = claim(tmp_path, "a", stale_minutes=30)
    assert second.path.name == "a.2"
    assert claim(tmp_path, "a") is None
    second.release()
    assert claim(tmp_path, "a") == Claim(newest(tmp_path, "a"))


def test_the_claim_of_a_process_that_died_here_is_free_at_once(tmp_path):
    source = "import sys; from pathlib import Path; from megareward.experiments.claims import claim; "
    for options, free in (("", True), (", for_another=True", False)):
        name = f"unit-{free}"
        done = [sys.executable, "-c", f"{source}claim(Path(sys.argv[1]), '{name}'{options})", str(tmp_path)]
        subprocess.run(done, check=True)
        assert (claim(tmp_path, name) is not None) == free


@pytest.mark.parametrize("ends_well", [True, False])
def test_claims_are_touched_while_they_are_held_and_released_after(tmp_path, ends_well):
    mine, done = claim(tmp_path, "a"), claim(tmp_path, "b")
    old = time.time() - 3600
    os.utime(mine.path, (old, old))
    held = [mine, done]
    try:
        with kept_alive(held, every=0.02):
            held.remove(done)
            deadline = time.monotonic() + 10
            while mine.path.stat().st_mtime < old + 60:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert ends_well
    except AssertionError:
        assert not ends_well
    assert claim(tmp_path, "a") is not None
    assert claim(tmp_path, "b") is None
