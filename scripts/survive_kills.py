"""Kill a training run again and again, without warning, and show that it never loses more than one checkpoint interval.

    python scripts/survive_kills.py --kills 20

The run trains on a mini game and saves after every update. Each process is ended with kill -9, in turn at a random
moment and in the middle of saving (a scratch folder exists). After each kill the newest checkpoint must be whole and
at most one interval behind the last line of metrics.jsonl, and the next process must go on from it. In the end the
logs must equal those of a run that nobody killed. Exit status 1 if anything of this fails.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from megareward.runs.checkpoint import list_checkpoints, load_newest
from megareward.runs.folder import LOGS, RunFolder, is_run
from megareward.training.config import read_config

PATIENCE = 120.0
"""Seconds to wait for a process to do anything at all."""


class ViolationError(Exception):
    """A promise was broken."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--method", default="extrinsic")
    parser.add_argument(
        "--seed", type=int, default=None, help="of the moments to kill at [default: another every time]"
    )
    args = parser.parse_args()
    seed = random.randrange(2**31) if args.seed is None else args.seed
    print(f"{args.kills} kills of a run of {args.method}; moments drawn with --seed {seed}")
    with tempfile.TemporaryDirectory() as folder:
        try:
            hits = kill_repeatedly(Path(folder) / "killed", args.method, args.kills, random.Random(seed))
            lines = compare_with_an_undisturbed_run(Path(folder), args.method)
        except ViolationError as broken:
            print(f"FAILED: {broken}")
            return 1
    print(
        f"OK: {args.kills} kills, {hits} of them in the middle of saving; never more than one interval was lost, "
        f"and all {lines} lines of the logs equal those of an undisturbed run."
    )
    return 0


def kill_repeatedly(run: Path, method: str, kills: int, rng: random.Random) -> int:
    """How many kills hit a process while it was saving."""
    print("kill  aimed at  process lived  died while  last line  newest checkpoint  intervals lost")
    hits = 0
    with training(run, method) as first:
        wait_until(lambda: is_run(run), first)
        kill(first)
    saved = 0
    for number in range(1, kills + 1):
        begun = time.monotonic()
        with training(run, method) as process:
            wait_until(saves_more_than(saved, run), process)  # it goes on from where it was
            aim = ("any time", "saving")[number % 2]
            time.sleep(rng.uniform(0.0, 1.0))
            if aim == "saving":
                wait_until(lambda: is_saving(run), process, pause=0.0)
                time.sleep(rng.choice([0.0, rng.uniform(0.0, 0.02)]))  # also late: renaming, forgetting the oldest
            kill(process)
        seconds = time.monotonic() - begun
        was_saving = is_saving(run)
        hits += was_saving
        resumed_from = RunFolder(run).rows("processes.jsonl")[-1]["from_frames"]
        if resumed_from != saved:
            raise ViolationError(f"the process went on from {resumed_from} frames, but {saved} were saved")
        last, saved, lost = examine(run)
        doing = "saving" if was_saving else "training"
        print(
            f"{number:4}  {aim:8}  {seconds:11.1f} s  {doing:10}  {last:9}  {saved:17}  {lost:14.0f}",
            flush=True,
        )
        if lost > 1:
            raise ViolationError(f"{lost:g} intervals were lost")
    return hits


def examine(run: Path) -> tuple[int, int, float]:
    """Frames of the last line and of the newest checkpoint, which must be whole, and the intervals between the two."""
    folder = RunFolder(run)
    warnings: list[str] = []
    found = load_newest(folder.checkpoints, warnings.append)
    if warnings or found is None:
        raise ViolationError(warnings[0] if warnings else "no checkpoint was written")
    saved = int(found[2]["frames"])
    last = int(folder.rows("metrics.jsonl")[-1]["frames"])
    return last, saved, (last - saved) / read_config(folder).frames_per_iteration


def compare_with_an_undisturbed_run(folder: Path, method: str) -> int:
    """The lines that were compared: all that the killed run holds, except the half of one that a kill may leave."""
    killed, undisturbed = RunFolder(folder / "killed"), RunFolder(folder / "undisturbed")
    wanted = len(killed.rows("metrics.jsonl"))
    with training(undisturbed.path, method, "--checkpoint-minutes", "1000") as process:
        wait_until(lambda: len(undisturbed.rows("metrics.jsonl")) >= wanted, process, pause=0.2, patience=20 * PATIENCE)
        process.send_signal(signal.SIGINT)
        process.wait()
    compared = 0
    for log in LOGS:
        for one, two in zip(killed.rows(log), undisturbed.rows(log), strict=False):
            if without_the_machine(one) != without_the_machine(two):
                raise ViolationError(
                    f"line {compared + 1} of {log} is\n{json.dumps(one)}\ninstead of\n{json.dumps(two)}"
                )
            compared += 1
    if compared < wanted:
        raise ViolationError(f"only {compared} lines could be compared, {wanted} were expected")
    return compared


def without_the_machine(row: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in row.items() if not name.startswith(("seconds/", "memory/"))}


# Processes -----------------------------------------------------------------------------------------------------------


@contextmanager
def training(run: Path, method: str, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that trains the run, from its beginning or from where it is; never left behind."""
    new = ["train", method, "--out", str(run), "--preset", "debug", "--frames", "1G", "--device", "cpu", *more]
    words = ["resume", str(run)] if is_run(run) else new
    command = [sys.executable, "-m", "megareward.cli", *words, "--quiet", "--no-tensorboard"]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1", "MEGAREWARD_COMMIT": "unknown"})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        raise ViolationError(f"the process ended by itself with status {process.returncode}")
    process.kill()
    process.wait()


def wait_until(
    holds: Callable[[], bool], process: subprocess.Popen[bytes], pause: float = 0.01, patience: float = PATIENCE
) -> None:
    begun = time.monotonic()
    while not holds():
        if process.poll() is not None:
            raise ViolationError(f"the process ended by itself with status {process.returncode}")
        if time.monotonic() - begun > patience:
            raise ViolationError(f"nothing happened for {patience:.0f} seconds")
        time.sleep(pause)


def is_saving(run: Path) -> bool:
    return any((run / "checkpoints").glob(".writing-*"))


def saves_more_than(frames: int, run: Path) -> Callable[[], bool]:
    return lambda: any(int(path.name) > frames for path in list_checkpoints(run / "checkpoints"))


if __name__ == "__main__":
    sys.exit(main())
