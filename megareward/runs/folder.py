"""The folder of a run: config.json, metrics.jsonl, scores.jsonl, processes.jsonl, checkpoints/, tensorboard/."""

import fcntl
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from megareward.errors import RunError, UsageError
from megareward.runs.durable import disk_is_full, sync_folder, write_synced

LOGS = ("metrics.jsonl", "scores.jsonl")


class RunFolder:
    """An existing run on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    @classmethod
    def create(cls, path: Path, record: dict[str, Any], files: dict[str, bytes] | None = None) -> "RunFolder":
        """A new run. The folder appears with its config.json (the `record`) and other first files inside or not at all;
        an existing one is never touched."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            remedy = f"`megareward resume {path}` continues it" if is_run(path) else "it holds something else"
            raise UsageError(f"{path} exists already: {remedy}; or choose another --out.")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        except OSError as why:
            raise _cannot_create(path, why) from why
        try:
            scratch.chmod(0o755)
            for name, data in {"config.json": json.dumps(record, indent=1).encode(), **(files or {})}.items():
                write_synced(scratch / name, data)
            os.rename(scratch, path)
        except OSError as why:
            shutil.rmtree(scratch, ignore_errors=True)
            raise _cannot_create(path, why) from why
        sync_folder(path.parent)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        if not is_run(path):
            what = "holds no run (there is no config.json)" if path.is_dir() else "does not exist"
            raise UsageError(f"{path} {what}; give the folder that `megareward train` wrote.")
        return cls(path)

    # Reading ---------------------------------------------------------------------------------------------------------

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def record(self) -> dict[str, Any]:
        source = self.path / "config.json"
        try:
            record = json.loads(source.read_text())
        except ValueError as broken:
            raise RunError(f"{source} is not valid JSON ({broken}); the run cannot be read.") from broken
        if not isinstance(record, dict) or not isinstance(record.get("config"), dict):
            raise UsageError(
                f"{source} holds no configuration of a run; give the folder that `megareward train` wrote."
            )
        return record

    def rows(self, log: str) -> list[dict[str, Any]]:
        """All lines of a log. A last line cut short by a kill is left out."""
        path = self.path / log
        if not path.exists():
            return []
        lines = path.read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in lines]

    # Working ---------------------------------------------------------------------------------------------------------

    def lock(self) -> None:
        """One process at a time; the lock vanishes with the process, however it dies."""
        self._lock = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.unlock()
            raise UsageError(f"Another process is working on {self.path}; wait for it or stop it first.") from None

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def note_process(self, frames: int, provenance: dict[str, Any]) -> None:
        """One line for every process that works on the run: a run may be resumed by other code on another machine."""
        self.append("processes.jsonl", {"from_frames": frames, "provenance": provenance})

    def append(self, log: str, row: dict[str, Any]) -> None:
        """One more line, after dropping a last line that a kill or a full disk left unfinished."""
        with open(self.path / log, "a+b") as file:
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
            file.write(json.dumps(row).encode() + b"\n")

    def log_sizes(self) -> dict[str, int]:
        """Bytes of each log, safely on disk: what a checkpoint remembers."""
        sizes = {}
        for log in LOGS:
            path = self.path / log
            if path.exists():
                with open(path, "ab") as file:
                    os.fsync(file.fileno())
            sizes[log] = path.stat().st_size if path.exists() else 0
        return sizes

    def cut_logs(self, sizes: dict[str, int]) -> None:
        """Forget lines that were written after the checkpoint a run resumes from: they will be written again."""
        for log in LOGS:
            path = self.path / log
            if path.exists():
                os.truncate(path, min(sizes.get(log, 0), path.stat().st_size))


def _cannot_create(path: Path, why: OSError) -> UsageError | RunError:
    if disk_is_full(why):
        return RunError(f"No space is left for {path}; free some or choose another --out.")
    return UsageError(f"Cannot create {path} ({why.strerror}); choose another --out.")


def is_run(path: Path) -> bool:
    return (path / "config.json").is_file()


def free_name(path: Path) -> Path:
    """The path itself, or the first of path-2, path-3, ... that does not exist."""
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate
