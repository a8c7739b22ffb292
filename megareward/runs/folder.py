"""The folder of a run: config.json, metrics.jsonl, scores.jsonl, processes.jsonl, checkpoints/, tensorboard/."""

import errno
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from megareward.errors import RunError, UsageError, warn
from megareward.runs.durable import append_line, disk_is_full, no_links, save_file, sync_folder, write_synced

LOGS = ("metrics.jsonl", "scores.jsonl")
WRITTEN = (*LOGS, "processes.jsonl", "checkpoints", "tensorboard")
"""Files and folders that training writes into."""

PACKED = {".tar": "tar", ".tar.gz": "gztar", ".tgz": "gztar", ".zip": "zip"}
"""Endings of packed folders, with `shutil`'s name of the format."""


class ExistsError(UsageError):
    """The path of a new run exists already."""

    def __init__(self, path: Path) -> None:
        remedy = f"`megareward resume {path}` continues it" if is_run(path) else "it holds something else"
        super().__init__(f"{path} exists already: {remedy}; or choose another --out.")


class RunFolder:
    """An existing run on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    @classmethod
    def create(
        cls, path: Path, record: dict[str, Any], files: dict[str, bytes] | None = None, numbered: bool = False
    ) -> "RunFolder":
        """Create the folder of a new run, atomically with its config.json (the `record`) and `files` inside. An
        existing folder is never touched. `numbered`: if it exists, take another name (see `free_name`)."""
        while numbered:
            try:
                return cls.create(free_name(path), record, files)
            except ExistsError:  # another process was faster
                continue
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise ExistsError(path)
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
            if why.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise ExistsError(path) from why
            raise _cannot_create(path, why) from why
        sync_folder(path.parent)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        if not is_run(path):
            if path.is_file() and path.name.endswith(tuple(PACKED)):
                how = "unzip" if path.suffix == ".zip" else "tar xf"
                raise UsageError(f"{path} is packed; unpack it (`{how} {path}`) and give the folder that comes out.")
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
            record = json.loads(source.read_bytes())
        except (ValueError, RecursionError) as broken:
            raise RunError(f"{source} is not valid JSON ({broken}); the run cannot be read.") from broken
        if not isinstance(record, dict) or not isinstance(record.get("config"), dict):
            raise UsageError(
                f"{source} holds no configuration of a run; give the folder that `megareward train` wrote."
            )
        provenance = record.get("provenance")
        return record | {"provenance": provenance if isinstance(provenance, dict) else {}}

    def rows(self, log: str, warn: Callable[[str], None] = warn) -> list[dict[str, Any]]:
        """All lines of a log. An unfinished last line is left out; damaged lines are left out with a warning."""
        path = self.path / log
        if not path.exists():
            return []
        rows = [_row(line) for line in path.read_bytes().split(b"\n")[:-1]]
        whole = [row for row in rows if row is not None and IS_WHOLE.get(log, bool)(row)]
        if damaged := len(rows) - len(whole):
            warn(f"{path} has {damaged} damaged of {len(rows)} lines, which are left out.")
        return whole

    # Working ---------------------------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Lock the run for this process; the lock ends with the process, however it dies. A run writes only into its
        own folder, so a link in place of anything that it writes is refused."""
        for name in WRITTEN:
            if (self.path / name).is_symlink():
                raise UsageError(
                    f"{self.path / name} is a link, which is not followed; put what it names in its place."
                )
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

    def rewrite(self, record: dict[str, Any]) -> None:
        """Replace config.json, whole or not at all."""
        save_file(self.path / "config.json", json.dumps(record, indent=1).encode())

    def note_process(self, frames: int, provenance: dict[str, Any]) -> None:
        """Log a process that works on the run: it may be resumed by other code or on another machine."""
        self.append("processes.jsonl", {"from_frames": frames, "provenance": provenance})

    def append(self, log: str, row: dict[str, Any]) -> None:
        append_line(self.path / log, row)

    def log_sizes(self) -> dict[str, int]:
        """Bytes of each log, synced to disk; a checkpoint stores them."""
        sizes = {}
        for log in LOGS:
            path = self.path / log
            if path.exists():
                with open(path, "ab", opener=no_links) as file:
                    os.fsync(file.fileno())
            sizes[log] = path.stat().st_size if path.exists() else 0
        return sizes

    def cut_logs(self, sizes: dict[str, int], warn: Callable[[str], None] = warn) -> None:
        """Cut lines that were written after the checkpoint a run resumes from: they will be written again. A log that
        has become shorter since is cut after its last whole line."""
        for log in LOGS:
            path, size, end = self.path / log, sizes.get(log, 0), 0
            if path.exists():
                with open(path, "r+b", opener=no_links) as file:
                    end = file.read(size).rfind(b"\n") + 1
                    file.truncate(end)
            if end < size:
                warn(f"{path} has lost {size - end} of its {size} bytes since the checkpoint; the run goes on without.")


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def is_number(value: Any) -> bool:
    """Whether the value is a number that can be drawn."""
    return isinstance(value, int | float) and abs(value) < 1e38  # neither NaN nor more than a metric can be


def _are_numbers(values: list[Any]) -> bool:
    return len(values) > 0 and all(map(is_number, values))


IS_WHOLE: dict[str, Callable[[dict[str, Any]], bool]] = {
    "metrics.jsonl": lambda row: all(map(is_number, row.values())) and row.get("frames", 0) > 0,
    "scores.jsonl": lambda row: all(is_number(row.get(name)) for name in ("frames", "score")) and row["frames"] > 0,
    "eval.jsonl": lambda row: isinstance(row.get("scores"), list) and _are_numbers(row["scores"]),
}
"""By log, whether a line has what its readers need."""


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
