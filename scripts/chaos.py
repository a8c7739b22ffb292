"""Attack runs in all ways we could think of, and show that nothing is lost and that every end is one sentence.

    python scripts/chaos.py --short                                                 # as in the tests, about a minute
    python scripts/chaos.py --kills 1000 --corruptions 5000 --record results/chaos/1.json       # hours on two cores
    python scripts/chaos.py --table results/chaos/*.json                            # what was recorded

    kills        kill -9 at a random moment of train, resume, eval, audit, watch and report; the run goes on, and in the
                 end its logs equal those of a run that nobody disturbed
    sweeps       kill -9 at a random moment of `experiment`, alone or with all that it has started; nobody goes on
                 training without it, and in the end, finished by two sweeps at once, every run was made once and its
                 record equals that of a sweep that nobody disturbed
    corruptions  one file of a run is cut, flipped, emptied, deleted, linked, replaced or forged (with hashes that are
                 right); then some command reads it
    places       a file system without space, a file that may not grow, a run that cannot be written; then a resume
    company      two processes on one folder at the same moment
    words        command lines of absurd options and values

Every case is a process of its own, forked from this one after everything is imported, with a limit on time and memory.
It must end with status 0, 1 or 2; without a traceback, an "internal error", a signal or a hang; it must not touch a
file outside of the run to which links point; and who refuses to resume must have changed nothing. Otherwise the exit
status is 1. Moments of kills follow the speed of the machine, which is measured now and then; --patience 10 lets a
case take ten times as long before it counts as a hang, for a machine that has other work.
"""

import argparse
import ctypes
import hashlib
import importlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from megareward.cli import COMMANDS
from megareward.cli import main as megareward_main
from megareward.experiments.plans import EXPERIMENTS, Experiment, game, method
from megareward.progress import Bar
from megareward.rewards import METHODS
from megareward.runs.checkpoint import load_newest
from megareward.runs.durable import replace_synced
from megareward.runs.folder import LOGS, RunFolder, is_run
from megareward.runs.provenance import commit
from megareward.runs.record import Record
from megareward.training.config import TrainConfig

SLOW = "torch._dynamo tyro matplotlib.pyplot PIL.ImageDraw PIL.ImageFont".split()  # noqa: SIM905
OURS = """audit.run_audit control.models envs.mini.pong observers.control rewards.mega training.run viewer.figure
    viewer.watch""".split()  # noqa: SIM905
"""Imported before the first fork; every case would import them again."""
LIBC = ctypes.CDLL(None)
PRIVATE = 1 << 18 | 1 << 14
"""To mount: this process and its children see its file systems alone."""
PATIENCE = 120.0
"""Seconds until a case counts as a hang, on a machine without other work."""
MEMORY = 6 * 2**30
"""Bytes of address space that a case may have."""
UNCAUGHT = 99
"""Status of a case that an exception went through."""
TRAIN = "mega --preset debug --device cpu --quiet --no-tensorboard --env.points 1 --env.max-steps 8".split()  # noqa: SIM905
RESUME = ["--quiet", "--no-tensorboard", "--minutes", "1e-9"]
"""One iteration more."""
AUDIT = ["--episodes", "1", "--frames", "6", "--lags", "3", "--device", "cpu"]
SWEEP = Experiment(
    "sweep",
    "Is every run made once, whatever happens?",
    rows={"mega": method("mega", "debug"), "random": method("random", "debug")},
    columns={"mini-pong": lambda config: replace(game("mini-pong", points=1, max_steps=8)(config), n_envs=2)},
    frames=96,
    seeds=1,
    whole_games=2,
)


@dataclass
class Ending:
    """How a case ended."""

    words: list[str]
    status: int
    """Of the process; minus the signal that ended it."""
    said: str
    timed_out: bool = False
    killed: bool = False
    """By us, as it was meant to be."""

    @property
    def complaint(self) -> str:
        """What it did that no case may do, or nothing."""
        if self.killed:
            return ""
        if self.timed_out:
            return "hang"
        if self.status < 0:
            return f"signal {signal.Signals(-self.status).name}"
        if "internal error" in self.said:
            return "internal error"
        if self.status == UNCAUGHT:
            return "traceback"
        return "" if self.status in (0, 1, 2) else f"status {self.status}"


class Chaos:
    """All cases, in a folder of their own, and what was found."""

    def __init__(self, place: Path, args: argparse.Namespace, seed: int) -> None:
        self.place, self.rng, self.patience = place, random.Random(seed), args.patience * PATIENCE
        self.begun = time.monotonic()
        self.until = self.begun + 60 * args.minutes
        self.about = {"seed": seed, "commit": os.environ["MEGAREWARD_COMMIT"]}
        self.file: Path | None = args.record and args.record.absolute()
        self.pace = 1.0
        """Seconds that a short process takes now."""
        self.tally: dict[str, Counter[str]] = {}
        self.findings: list[dict[str, Any]] = []
        self.precious = place / "precious"
        self.precious.write_text("precious\n")
        self.original = place / "original"

    def prepare(self) -> None:
        """A run in the middle of its training, evaluated, audited, watched and reported."""
        run = str(self.original)
        for words in (
            ["train", *TRAIN, "--frames", "192", "--out", run, *RESUME[2:]],
            *(["resume", run, *RESUME] for _ in range(3)),
            ["eval", run, "--episodes", "2"],
            ["audit", run, *AUDIT, "--cache", f"{run}/audit-truth"],
            ["watch", run, "--steps", "20"],
            ["report", run],
        ):
            ending = self.start(words)()
            if ending.status:
                raise SystemExit(f"{' '.join(words)} failed: {ending.said}")

    # Processes -------------------------------------------------------------------------------------------------------

    def start(
        self,
        words: list[str],
        before: Callable[[], None] = lambda: None,
        kill_after: float | None = None,
        alone: bool = False,
    ) -> Callable[[], Ending]:
        """Fork a process that runs one command; what is returned waits for its end. `before` happens inside of it.
        `alone`: a kill spares what it has started."""
        reader, writer = os.pipe()  # no file: a full disk must not silence it
        os.set_blocking(reader, False)
        child = os.fork()
        if child == 0:
            self._be(words, writer, before)
        with suppress(OSError):  # whoever comes first, the child or we
            os.setpgid(child, child)
        os.close(writer)
        begun, patience = time.monotonic(), self.patience if kill_after is None else kill_after

        def wait() -> Ending:
            timed_out, pause, said = False, 0.002, b""
            while True:
                done, status = os.waitpid(child, os.WNOHANG)
                said += drained(reader)
                if done:
                    break
                if time.monotonic() - begun > patience and not timed_out:
                    (os.kill if alone else os.killpg)(child, signal.SIGKILL)
                    timed_out = True
                time.sleep(pause)
                pause = min(2 * pause, 0.05)
            os.close(reader)
            ended, text = os.waitstatus_to_exitcode(status), said.decode(errors="replace")
            killed = timed_out and kill_after is not None and ended == -signal.SIGKILL
            return Ending(words, ended, text, timed_out and kill_after is None, killed)

        return wait

    def _be(self, words: list[str], output: int, before: Callable[[], None]) -> None:
        """What the child does; it never returns."""
        status = UNCAUGHT
        try:
            LIBC.prctl(1, signal.SIGKILL)  # if this program ends, so do its cases
            os.setpgid(0, 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.chdir(self.place)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            before()
            try:
                status = megareward_main([*words, "--debug"])
            except SystemExit as ending:  # of the parser
                status = ending.code if isinstance(ending.code, int) else 1
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)

    # Verdicts --------------------------------------------------------------------------------------------------------

    def note(self, kind: str, what: str, ending: Ending, complaint: str = "") -> None:
        """One case of a kind: `what` was done to it, how it ended, and what else is wrong."""
        complaint = ending.complaint or complaint
        if not complaint and self.precious.read_text() != "precious\n":
            complaint = "wrote outside"
            self.precious.write_text("precious\n")
        outcome = complaint or ("killed" if ending.killed else ("done", "failed", "refused")[ending.status])
        self.tally.setdefault(kind, Counter())[outcome] += 1
        if complaint:
            words = " ".join(ending.words)
            self.findings.append({"kind": kind, "complaint": complaint, "what": what, "words": words})
            tail = "\n    ".join(ending.said.strip().splitlines()[-12:])
            print(f"FOUND {complaint}: {what}: megareward {words}\n    {tail}", flush=True)

    def counted(self, number: int) -> Iterator[int]:
        """The numbers of the cases of one kind, as long as there is time, with a line of progress."""
        bar = Bar("cases")
        for n in range(number):
            if time.monotonic() > self.until:
                return
            yield n
            bar(n + 1, number)
            self.save()

    @property
    def minutes(self) -> float:
        return round((time.monotonic() - self.begun) / 60, 1)

    def save(self) -> None:
        if self.file:
            record = self.about | {"minutes": self.minutes, "table": self.table(), "found": self.findings}
            replace_synced(self.file, (json.dumps(record, indent=1) + "\n").encode())

    def table(self) -> dict[str, dict[str, int]]:
        return {kind: dict(sorted(outcomes.items())) for kind, outcomes in self.tally.items()}

    def copy(self) -> Path:
        run = self.place / f"run{self.rng.randrange(10**9)}"
        shutil.copytree(self.original, run, symlinks=True)
        return run

    def command_on(self, run: Path) -> list[str]:
        """Something that reads a run."""
        path, out = str(run), str(self.place / "out")
        return self.rng.choice(
            [
                *[["resume", path, *RESUME]] * 4,
                ["eval", path, "--episodes", "1"],
                ["audit", path, *AUDIT, "--cache", f"{path}/audit-truth"],
                ["watch", path, "--steps", "8"],
                ["watch", path, "--audited", "--policy", "random", "--out", f"{out}.html"],
                ["report", path],
                ["results", "add", path, "--ledger", out],
                ["train", *TRAIN, "--frames", "24", "--from", path, "--out", f"{path}-next"],
            ]
        )

    # Kills -----------------------------------------------------------------------------------------------------------

    def kills(self, number: int) -> None:
        """One run through all of them. Now and then the kill hits the very beginning of another."""
        run = self.place / "killed"
        for n in self.counted(number):
            if n % 25 == 0:
                self.measure_pace()
            if n % 10 == 9:
                self.kill_at_birth()
                continue
            resumed = ["resume", str(run), "--quiet", "--no-tensorboard"]
            words = resumed if is_run(run) else ["train", *TRAIN, "--frames", "1G", "--out", str(run)]
            if is_run(run) and n % 4 == 3:
                others = (["eval", str(run), "--episodes", "4"], ["audit", str(run), *AUDIT], ["report", str(run)])
                words = self.rng.choice([*others, ["watch", str(run), "--steps", "200"]])
            ending = self.start(words, kill_after=self.rng.uniform(0.0, 2.5 * self.pace))()
            self.note("kills", "kill -9", ending, self.is_broken(run))
        self.compare(run)

    def kill_at_birth(self) -> None:
        run = self.place / f"born{self.rng.randrange(10**9)}"
        words = ["train", *TRAIN, "--frames", "24", "--out", str(run)]
        ending = self.start(words, kill_after=self.rng.uniform(0, self.pace))()
        self.note("kills", "kill -9 while the run is made", ending)
        if not run.exists():
            return
        ending = self.start(["resume", str(run), "--quiet", "--no-tensorboard"])()
        self.note("kills", "the run that was made", ending, "lost" if ending.status else "")
        shutil.rmtree(run)

    def measure_pace(self) -> None:
        run, begun = self.copy(), time.monotonic()
        self.start(["resume", str(run), *RESUME])()
        self.pace = time.monotonic() - begun
        shutil.rmtree(run)

    def is_broken(self, run: Path) -> str:
        """What a kill may not leave behind."""
        if not is_run(run):
            return ""
        warnings: list[str] = []
        found = load_newest(run / "checkpoints", warnings.append)
        for log in LOGS:
            RunFolder(run).rows(log, warnings.append)
        if warnings:
            return f"lost: {warnings[0]}"
        lines = len(RunFolder(run).rows("metrics.jsonl"))
        return "lost: lines without a checkpoint" if found is None and lines else ""

    def compare(self, run: Path) -> None:
        """Trained to some end, the killed run must be what an undisturbed one is."""
        if not is_run(run):
            return
        self.note("kills", "the end", self.start(["resume", str(run), *RESUME])())
        wanted = RunFolder(run).rows("metrics.jsonl")[-1]["frames"]
        calm = self.place / "calm"
        ending = self.start(["train", *TRAIN, "--frames", "1G", "--out", str(calm), "--minutes", "1e-9"])()
        while RunFolder(calm).rows("metrics.jsonl")[-1]["frames"] < wanted:
            ending = self.start(["resume", str(calm), "--quiet", "--no-tensorboard", "--minutes", "0.05"])()
        same = all(
            without_the_machine(one) == without_the_machine(two)
            for log in LOGS
            for one, two in zip(RunFolder(run).rows(log), RunFolder(calm).rows(log), strict=False)
        )
        self.note("kills", "compared with an undisturbed run", ending, "" if same else "lost: the logs differ")

    # Sweeps ----------------------------------------------------------------------------------------------------------

    def sweeps(self, number: int) -> None:
        """A few kills for every table that is made."""
        EXPERIMENTS[SWEEP.name] = SWEEP  # for the processes forked from this one; a run needs its config.json alone
        calm = self.place / "calm-sweep"
        if number:
            begun = time.monotonic()
            self.note("sweeps", "undisturbed", self.start(self.sweep_in(calm))())
            lasts = time.monotonic() - begun
        table, left = self.place / "sweep", 0
        for _ in self.counted(number):
            left = left or self.rng.randint(1, 5)
            alone = self.rng.random() < 0.5
            ending = self.start(self.sweep_in(table), kill_after=self.rng.uniform(0, 0.7 * lasts), alone=alone)()
            orphans = self.wait_for_orphans(table)
            what = "kill -9" if alone else "kill -9 of all its processes"
            broken = [why for run in (table / "runs").glob("*/*") if (why := self.is_broken(run))]
            self.note("sweeps", what, ending, orphans or (broken[0] if broken else ""))
            left -= 1
            if not left:
                self.finish_sweep(table, calm)
        if table.exists():
            self.finish_sweep(table, calm)

    def sweep_in(self, table: Path) -> list[str]:
        places = ["--runs", f"{table}/runs", "--results", f"{table}/results"]
        return ["experiment", SWEEP.name, "--jobs", "2", *places]

    def wait_for_orphans(self, table: Path) -> str:
        """What a killed sweep has started must end by itself."""
        end = time.monotonic() + self.patience
        while processes := at_work_on(table):
            if time.monotonic() > end:
                for process in processes:
                    os.kill(process, signal.SIGKILL)
                return "trains without its sweep"
            time.sleep(0.1)
        return ""

    def finish_sweep(self, table: Path, calm: Path) -> None:
        """Two sweeps at once make what is left, and all is as if nothing had happened."""
        for ending in [wait() for wait in [self.start(self.sweep_in(table)) for _ in range(2)]]:
            self.note("sweeps", "two sweeps at once", ending, "lost" if ending.status else "")
        same = [essence(table, cell.name) == essence(calm, cell.name) for cell in SWEEP.cells()]
        done = Ending(self.sweep_in(table), 0, "")
        self.note("sweeps", "compared with an undisturbed sweep", done, "" if all(same) else "lost: the records differ")
        shutil.rmtree(table)

    # Corruptions -----------------------------------------------------------------------------------------------------

    def corruptions(self, number: int) -> None:
        files = sorted(path.relative_to(self.original) for path in self.original.rglob("*"))
        for n in self.counted(number):
            run = self.copy()
            target, harm = run / files[n % len(files)], self.rng.choice(list(HARMS))
            HARMS[harm](self, target)
            what = f"{harm} {target.relative_to(run)}"
            self.attempt("corruptions", what, run, self.command_on(run))
            if self.rng.random() < 0.3:  # whatever it was, the next command does not stumble over it
                self.attempt("corruptions", what, run, self.command_on(run))
            for leftover in (run, Path(f"{run}-next")):
                shutil.rmtree(leftover, ignore_errors=True)

    def attempt(self, kind: str, what: str, run: Path, words: list[str]) -> None:
        before = contents(run)
        ending = self.start(words)()
        changed = words[0] == "resume" and ending.status == 2 and contents(run) != before
        self.note(kind, what, ending, "changed what it refused" if changed else "")

    # Places, company, words ------------------------------------------------------------------------------------------

    def places(self, number: int) -> None:
        for n in self.counted(number):
            (self.without_space, self.short_files, self.unwritable)[n % 3]()

    def without_space(self) -> None:
        """A file system that becomes full while the command writes, and has space again afterwards."""
        with small_disk(self.place / "small") as resize:
            run = self.place / "small" / "run"
            shutil.copytree(self.original, run)
            disk = os.statvfs(run)
            free = int(10 ** self.rng.uniform(0, 6.5))
            resize((disk.f_blocks - disk.f_bfree) * disk.f_frsize + free)
            self.note("places", f"{free} bytes left", self.start(self.command_on(run))())
            resize(2**30)
            self.go_on(run)

    def short_files(self) -> None:
        run, limit = self.copy(), int(10 ** self.rng.uniform(1, 6.5))
        ending = self.start(self.command_on(run), before=lambda: full_disk(limit))()
        self.note("places", f"no file beyond {limit} bytes", ending)
        self.go_on(run)

    def unwritable(self) -> None:
        run = self.copy()
        before = contents(run)
        ending = self.start(self.command_on(run), before=lambda: read_only(run))()
        self.note("places", "read-only run", ending, "" if contents(run) == before else "wrote")
        self.go_on(run)

    def go_on(self, run: Path) -> None:
        """Nothing that happened may keep a run from being trained to its end."""
        ending = self.start(["resume", str(run), "--quiet", "--no-tensorboard"])()
        self.note("places", "afterwards", ending, "lost" if ending.status else self.is_broken(run))
        shutil.rmtree(run)

    def company(self, number: int) -> None:
        for n in self.counted(number):
            run = self.copy()
            both = [["resume", str(run), "--quiet", "--no-tensorboard"]] * 2
            if n % 2:
                both[1] = self.command_on(run)
            endings = [wait() for wait in [self.start(words) for words in both]]
            for ending in endings:
                self.note("company", "two at once", ending)
            again = self.start(["resume", str(run), "--quiet", "--no-tensorboard"])()
            self.note("company", "afterwards", again, "lost" if again.status else self.is_broken(run))
            shutil.rmtree(run)

    def words(self, number: int) -> None:
        for _ in self.counted(number):
            run = str(self.original)
            start = self.rng.choice(
                [
                    ["train", self.rng.choice([*METHODS, "nonsense"]), "--preset", "debug", "--frames", "48"],
                    ["train", "mega", "--preset", "debug", "--frames", "48"],
                    ["eval", run, "--episodes", "1", "--out", "out.jsonl"],
                    ["audit", run, *AUDIT, "--out", "out"],
                    ["watch", run, "--steps", "8", "--out", "out.html"],
                    ["figure", "case-study", "--run", run, "--steps", "20", "--out", "out"],
                    ["report", run, "--out", "out.html"],
                    ["probe", run, "--steps", "4", "--n-envs", "2", "--device", "cpu"],
                    ["truth", "--cache", "out"],
                    ["results"],
                    ["bench", "emulator", "--game", "mini-pong", "--n-envs", "2", "--seconds", "0.01"],
                    ["games"],
                    ["methods"],
                    ["experiment"],
                    [],
                ]
            )
            if start[:1] == ["train"]:
                start += ["--minutes", "0.01", "--out", f"t{self.rng.randrange(10**9)}", "--no-tensorboard", "--quiet"]
            known = OPTIONS["train"] if start[:1] == ["train"] else OPTIONS["others"]
            more = [
                word
                for _ in range(self.rng.randint(0, 2))
                for word in (self.rng.choice(known), self.rng.choice(VALUES))[: self.rng.randint(1, 2)]
            ]
            self.note("words", "odd words", self.start([*start, *more])())
            for made in self.place.glob("t[0-9]*"):
                shutil.rmtree(made)


# Harm ----------------------------------------------------------------------------------------------------------------


def cut(chaos: Chaos, file: Path) -> None:
    os.truncate(file, chaos.rng.randrange(max(file.stat().st_size, 1)))


def flip(chaos: Chaos, file: Path) -> None:
    data = bytearray(file.read_bytes()) or bytearray(b"x")
    data[chaos.rng.randrange(len(data))] ^= 1 << chaos.rng.randrange(8)
    file.write_bytes(data)


def replace_by_another(chaos: Chaos, file: Path) -> None:
    others = [path for path in chaos.original.rglob("*") if path.is_file()]
    file.write_bytes(chaos.rng.choice(others).read_bytes())


def link(to: Callable[[Chaos, Path], Path]) -> Callable[[Chaos, Path], None]:
    def harm(chaos: Chaos, path: Path) -> None:
        remove(path)
        path.symlink_to(to(chaos, path))

    return harm


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def folder_instead(chaos: Chaos, path: Path) -> None:
    remove(path)
    path.mkdir()


def file_instead(chaos: Chaos, path: Path) -> None:
    remove(path)
    path.write_bytes(chaos.rng.randbytes(chaos.rng.randrange(200)))


def forge(chaos: Chaos, file: Path) -> None:
    """Content of the right form and the wrong meaning; where there are hashes, they are right."""
    if file.suffix == ".safetensors":
        tensors = safetensors.torch.load_file(file)
        for name in chaos.rng.sample(sorted(tensors), 1):
            tensors[name] = chaos.rng.choice(TENSOR_FORGERIES)(tensors[name]).contiguous()
        file.write_bytes(safetensors.torch.save(tensors))
    elif file.suffix in (".json", ".jsonl"):
        lines = file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
        chosen = chaos.rng.randrange(len(lines))
        lines[chosen] = json.dumps(forged(json.loads(lines[chosen]), chaos.rng))
        file.write_text("\n".join(lines) + "\n")
    else:
        file.write_bytes(chaos.rng.randbytes(100))
    manifest = file.parent / "manifest.json"
    if manifest.exists() and manifest != file:
        hashes = json.loads(manifest.read_text())
        manifest.write_text(json.dumps(hashes | {file.name: hashlib.sha256(file.read_bytes()).hexdigest()}))


def forged(value: Any, rng: random.Random) -> Any:
    """The same with something odd in one place of it."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        if rng.random() < 0.1:
            return {name: own for name, own in value.items() if name != key}
        return value | {key: forged(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        return [*value[:at], forged(value[at], rng), *value[at + 1 :]]
    return rng.choice(
        [None, True, -1, 0, 1, 0.5, 10**30, -(10**30), 1e308, "", "x", "<script>", [], {}, [[]], "../../x"]
    )


TENSOR_FORGERIES: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: x.flatten()[: x.numel() // 2].clone(),
    lambda x: torch.cat([x.flatten()] * 2),
    lambda x: x.to(torch.float16),
    lambda x: x.to(torch.int64),
    lambda x: torch.full_like(x, -1) if x.dtype != torch.uint8 else torch.zeros_like(x),
    lambda x: torch.full_like(x, torch.nan) if x.is_floating_point() else x[None],
    lambda x: x.flatten()[:0].clone(),
    lambda x: torch.zeros(()),
]

HARMS: dict[str, Callable[[Chaos, Path], None]] = {
    "delete": lambda chaos, path: remove(path),
    "link to another file instead of": link(lambda chaos, path: chaos.precious),
    "link to nothing instead of": link(lambda chaos, path: chaos.place / "nothing"),
    "link to itself instead of": link(lambda chaos, path: path),
    "folder instead of": folder_instead,
    "file instead of": file_instead,
}
FILE_HARMS: dict[str, Callable[[Chaos, Path], None]] = {
    "cut": cut,
    "flip a bit of": flip,
    "empty": lambda chaos, file: file.write_bytes(b""),
    "nonsense after": lambda chaos, file: file.write_bytes(file.read_bytes() + chaos.rng.randbytes(50)),
    "another file's content in": replace_by_another,
    "forge": forge,
}
for name, function in FILE_HARMS.items():  # a folder has no bytes: it is deleted instead
    HARMS[name] = lambda chaos, path, harm=function: remove(path) if path.is_dir() else harm(chaos, path)  # type: ignore[misc]
HARMS["forge again"] = HARMS["forge"]


def full_disk(limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def read_only(run: Path) -> None:
    """For this process alone, where it may; else by permissions."""
    bind, remount = 1 << 12, 1 << 5 | 1
    path = str(run).encode()
    steps = [(None, b"/", PRIVATE), (path, path, bind), (None, path, bind | remount)]
    if LIBC.unshare(0x20000) or any(LIBC.mount(source, target, None, how, None) for source, target, how in steps):
        for place in (run, *run.rglob("*")):
            place.chmod(place.stat().st_mode & ~0o222)


@contextmanager
def small_disk(place: Path) -> Iterator[Callable[[int], None]]:
    """A file system of its own at this place, and a function that sets its bytes. Where none may be mounted, it is a
    folder and the function does nothing."""
    place.mkdir()
    path = str(place).encode()
    mounted = LIBC.mount(b"tmpfs", path, b"tmpfs", 0, b"size=1g") == 0
    try:
        yield lambda size: mounted and LIBC.mount(None, path, None, 1 << 5, f"size={size}".encode())
    finally:
        if mounted:
            LIBC.umount2(path, 2)  # even if somebody is still at it
        shutil.rmtree(place)


def at_work_on(place: Path) -> list[int]:
    """Processes of ours that were told this path."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            if f"{place}/".encode() in file.read_bytes():
                found.append(int(file.parent.name))
    return found


def essence(table: Path, run: str) -> Any:
    """What a recorded run is, whoever made it and however often it was interrupted."""
    logs = [
        [without_the_machine(row) for row in RunFolder(table / "runs" / SWEEP.name / run).rows(log)] for log in LOGS
    ]
    record = Record.read(table / "results" / SWEEP.name / f"{run}.json")
    return logs, replace(record, provenance={}, processes=[], seconds=None)


def drained(pipe: int) -> bytes:
    """What is in it now."""
    said = b""
    try:
        while part := os.read(pipe, 65536):
            said += part
    except BlockingIOError:
        pass
    return said


def contents(run: Path) -> dict[str, Any]:
    """Every file of a run, as it can be compared."""
    return {
        str(path.relative_to(run)): os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes()
        for path in run.rglob("*")
    }


def without_the_machine(row: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in row.items() if not name.startswith(("seconds/", "memory/"))}


# Words ---------------------------------------------------------------------------------------------------------------


def options_of(kind: Any, prefix: str = "--") -> list[str]:
    """Every option of a config, nested ones by dots."""
    found = []
    for field in fields(kind):
        value, name = getattr(kind, field.name), field.name.replace("_", "-")
        found += options_of(value, f"{prefix}{name}.") if is_dataclass(value) else [f"{prefix}{name}"]
    return found


OPTIONS = {
    "train": [*options_of(TrainConfig("mega")), "--reward.learning-rate", "--preset", "--from", "--plain"],
    "others": """--episodes --steps --seed --device --policy --lags --frames --out --json --cache --greedy --help --game
        --every --columns --start --video --video-steps --processes --ledger --audited --n-envs --seconds --threads
        --groups --table --only --seeds --jobs --oracle --maps --discount --nonsense""".split(),  # noqa: SIM905
}
VALUES = """-1 0 1 2 7 0.5 -0.5 1e-9 1e9 1e38 1e400 nan inf -inf 99999999999999999999 2147483648 x yes no on off auto
    cpu cuda --help -h true None [] {} ../../x / . nowhere mini-demon pong random trained mega x.gif""".split()  # noqa: SIM905
VALUES += ["", " ", "\u00e9\u4e16", "a b", "'", "$(x)", "%s"]


# What was recorded ---------------------------------------------------------------------------------------------------

OUTCOMES = {"killed": "killed by us", "done": "done", "failed": "failed, status 1", "refused": "refused, status 2"}


def table_of(records: list[dict[str, Any]]) -> str:
    """Markdown: the cases of every kind by how they ended, in all records together."""
    tally: dict[str, Counter[str]] = {}
    for record in records:
        for kind, outcomes in record["table"].items():
            tally.setdefault(kind, Counter()).update(outcomes)
    lines = [f"| kind | cases | {' | '.join(OUTCOMES.values())} | anything else |", f"|---{'|---' * 6}|"]
    for kind in (kind for kind in KINDS if kind in tally):
        outcomes = tally[kind]
        numbers = [outcomes.total(), *(outcomes.pop(name, 0) for name in OUTCOMES), outcomes.total()]
        lines.append(f"| {kind} | {' | '.join(map(str, numbers))} |")
    return "\n".join(lines)


# The program ---------------------------------------------------------------------------------------------------------


KINDS = {"kills": 100, "sweeps": 10, "corruptions": 500, "places": 60, "company": 30, "words": 300}
"""And how many cases of each there are if nobody says."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind, usual in KINDS.items():
        parser.add_argument(f"--{kind}", type=int, default=None, help=f"[default: {usual}]")
    parser.add_argument("--short", action="store_true", help="a few cases of each kind")
    parser.add_argument("--seed", type=int, default=None, help="of the cases [default: another every time]")
    parser.add_argument("--record", type=Path, help="write the table and all that was found into this file")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no case after so many")
    parser.add_argument("--patience", type=float, default=1.0, help="times the usual limits on time [default: 1]")
    parser.add_argument("--table", type=Path, nargs="+", metavar="RECORD", help="only tabulate what was recorded")
    args = parser.parse_args()
    if args.table:
        print(table_of([json.loads(file.read_text()) for file in args.table]))
        return 0
    seed = random.randrange(2**31) if args.seed is None else args.seed
    short = {"kills": 4, "sweeps": 1, "corruptions": 30, "places": 6, "company": 2, "words": 12}
    numbers = {kind: getattr(args, kind) for kind in KINDS}
    numbers = {k: (short if args.short else KINDS)[k] if n is None else n for k, n in numbers.items()}
    print(f"Cases drawn with --seed {seed}: {', '.join(f'{n} {kind}' for kind, n in numbers.items())}", flush=True)
    for module in (*SLOW, *COMMANDS.values(), *(f"megareward.{name}" for name in OURS)):
        importlib.import_module(module)
    for command in COMMANDS:  # the parser imports more when it is used
        with redirect_stdout(io.StringIO()), suppress(SystemExit):
            megareward_main([command, "--help"])
    torch.set_num_threads(1)
    os.environ.update({"MEGAREWARD_COMMIT": commit() or "unknown", "OMP_NUM_THREADS": "1", "COLUMNS": "100"})
    LIBC.unshare(0x20000) or LIBC.mount(None, b"/", None, PRIVATE, None)  # file systems mounted here end with us
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        chaos = Chaos(Path(place).resolve(), args, seed)
        chaos.prepare()
        for kind, number in numbers.items():
            getattr(chaos, kind)(number)
    chaos.save()
    print(f"\n{'kind':12} cases  outcomes")
    for kind, outcomes in chaos.table().items():
        words = ", ".join(f"{n} {outcome}" for outcome, n in outcomes.items())
        print(f"{kind:12} {sum(outcomes.values()):5}  {words}")
    cases, found = sum(sum(outcomes.values()) for outcomes in chaos.tally.values()), len(chaos.findings)
    print(f"{'FAILED' if found else 'OK'}: {found} findings in {cases} cases, {chaos.minutes} minutes.")
    return 1 if chaos.findings else 0


if __name__ == "__main__":
    sys.exit(main())
