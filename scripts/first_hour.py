"""Type the first hour of a new user on a terminal, and measure how long it stays silent.

    python scripts/first_hour.py              the README's commands, Atari on a CPU for three minutes (about 20 minutes)
    python scripts/first_hour.py --short      everything small (under a minute)

Every command runs on a pseudo-terminal in a new folder. A silence is the longest time in which nothing appeared on it,
from the start of the command to its end. Exit status 1 if a command failed or was silent for 5 s or longer; beside
other work the limits grow with the load of the machine.
"""

import argparse
import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from megareward.runs.provenance import provenance

LONGEST = 5.0
"""Seconds of silence that are too many."""
SAVED_WITHIN = 20.0
"""Seconds from Ctrl-C to the end of the command."""


@dataclass
class Typed:
    """One command and what the terminal showed."""

    words: list[str]
    status: int
    silence: float
    """Seconds."""
    seconds: float
    first: float
    """Seconds until something appeared."""
    stopping: float | None
    """Seconds from Ctrl-C to the end."""
    shown: str

    def __str__(self) -> str:
        stopping = "" if self.stopping is None else f"  ended {self.stopping:.1f} s after Ctrl-C"
        return (
            f"{self.silence:5.1f} s silent  {self.first:5.1f} s to the first text  {self.seconds:6.1f} s in all  "
            f"status {self.status}  megareward {' '.join(self.words)}{stopping}"
        )


def type_in(words: list[str], folder: Path, ctrl_c_at: float | None = None, limit: float = 900.0) -> Typed:
    """Run `megareward words` on a terminal of 100 columns; `ctrl_c_at`: seconds of training until Ctrl-C is typed."""
    master, slave = pty.openpty()
    environment = os.environ | {"COLUMNS": "100", "LINES": "40", "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-m", "megareward.cli", *words],
        cwd=folder,
        env=environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    begun = last = time.monotonic()
    first, silence, training_since, stopped_at = None, 0.0, None, None
    shown = bytearray()
    while process.poll() is None or select.select([master], [], [], 0)[0]:
        ready = select.select([master], [], [], 0.05)[0]
        now = time.monotonic()
        if training_since is None and b" frames  " in shown:  # the line that moves, not the banner
            training_since = now
        in_time = training_since is not None and ctrl_c_at is not None and now - training_since > ctrl_c_at
        if in_time and stopped_at is None:
            stopped_at = now
            os.killpg(process.pid, signal.SIGINT)
        if now - begun > limit:
            os.killpg(process.pid, signal.SIGKILL)
        if not ready:
            continue
        try:
            text = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not text:
            break
        shown += text
        first = now - begun if first is None else first
        silence, last = max(silence, now - last), now
    status = process.wait()
    ended = time.monotonic()
    os.close(master)
    stopping = None if stopped_at is None else ended - stopped_at
    shown_text = shown.decode(errors="replace")
    return Typed(words, status, max(silence, ended - last), ended - begun, first or 0.0, stopping, shown_text)


def first_hour(folder: Path, short: bool) -> Iterator[tuple[Typed, int]]:
    """Every command with the status that it should have."""

    def typed(line: str, status: int = 0, ctrl_c_at: float | None = None) -> tuple[Typed, int]:
        return type_in(line.split(), folder, ctrl_c_at), status

    mini = "--frames 3k --n-envs 8 --rollout-steps 32" if short else "--frames 150k"
    small = "--preset default,debug --n-envs 8 --frames 100k" if short else "--minutes 3"
    audit = "--episodes 1 --frames 20 --lags 4" if short else "--episodes 2 --frames 100"
    games = 2 if short else 10
    run = "runs/mini-breakout-mega-s0"
    yield typed("--help")
    if not short:
        yield typed("play")
    yield typed(f"train mega --game mini-breakout {mini}")
    if not short:
        yield typed("watch --pretrained up_n_down")
    yield typed(f"eval {run} --episodes 2" if short else f"eval {run}")
    yield typed(f"audit {run} {audit}" if short else f"audit {run}")
    yield typed(f"watch {run} --audited")
    if not short:
        yield typed(f"watch {run} --beside random")
    yield typed(f"report {run}")
    yield typed("results")
    yield typed(f"train mega --game breakout {small}", 130, ctrl_c_at=3.0 if short else 90.0)
    yield typed(f"resume runs/breakout-mega-s0 --minutes {0.05 if short else 1}")
    if not short:
        yield typed(f"eval runs/breakout-mega-s0 --episodes {games}")
        yield typed(f"watch runs/breakout-mega-s0 --steps {200}")
        yield typed("report runs/breakout-mega-s0")
        yield typed("bench emulator --n-envs 8 --seconds 3")
    yield typed(f"audit runs/breakout-mega-s0 {audit}")


def faults_of(typed: Typed, status: int) -> list[str]:
    """What a user would complain about."""
    slower = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # than an idle machine
    found = []
    if typed.status != status:
        found.append(f"status {typed.status} instead of {status}: {typed.shown[-2000:]}")
    if typed.silence >= LONGEST * slower:
        found.append(f"{typed.silence:.1f} s of silence")
    if typed.stopping is not None and typed.stopping >= SAVED_WITHIN * slower:
        found.append(f"it took {typed.stopping:.1f} s to stop")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--short", action="store_true", help="everything small")
    parser.add_argument("--json", type=Path, help="also write what was measured into this file")
    options = parser.parse_args()
    faults, measured = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for typed, status in first_hour(Path(folder), options.short):
            found = faults_of(typed, status)
            print(typed, *found, sep="\n  ", flush=True)
            faults += len(found)
            measured.append(
                {name: value for name, value in asdict(typed).items() if name != "shown"} | {"faults": found}
            )
    if options.json:
        record = {"typed": measured, "provenance": provenance(torch.device("cpu"))}
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{faults} faults" if faults else "No fault.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
