"""Jobs of machines that share no folder: runs move between them through a store, which is any URL that fsspec can
open, such as s3://bucket/sweep."""

import sys
import tarfile
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

from megareward.errors import UsageError
from megareward.experiments.runner import Job, do_job

PUSH_SECONDS = 120.0


@dataclass(frozen=True)
class Store:
    """A store of folders by name, each packed into one file."""

    url: str

    def check(self) -> None:
        """Refuse a store that cannot be written to, before any work."""
        files, place = self._place("")
        try:
            files.makedirs(place, exist_ok=True)
        except Exception as why:  # every kind of store has errors of its own
            raise UsageError(f"--store {self.url} cannot be written to ({why}); name another one.") from why

    def push(self, name: str, folder: Path) -> None:
        """Save the whole folder. The previous copy stays until the new file is complete."""
        files, place = self._place(name)
        with tempfile.NamedTemporaryFile(suffix=".tar") as packed:
            with tarfile.open(packed.name, "w") as tar:
                for path in sorted(folder.rglob("*"), key=_checkpoints_first):
                    tar.add(path, path.relative_to(folder), recursive=False)
            files.put_file(packed.name, f"{place}.new")
            files.mv(f"{place}.new", place)

    def fetch(self, name: str, folder: Path) -> None:
        """Unpack the saved folder of this name, if there is one."""
        files, place = self._place(name)
        if files.exists(place):
            with files.open(place) as packed, tarfile.open(fileobj=packed) as tar:
                tar.extractall(folder, filter="data")

    def _place(self, name: str) -> tuple[Any, str]:
        import fsspec

        try:
            files, folder = fsspec.core.url_to_fs(self.url)
        except (ValueError, ImportError) as why:
            raise UsageError(f"--store {self.url}: {why}; name a URL that fsspec can open.") from why
        return files, f"{folder}/{name}.tar" if name else folder


def _checkpoints_first(path: Path) -> tuple[bool, Path]:
    """Sort key: checkpoints first, since a saved log may be ahead of the saved checkpoint, but not behind it."""
    return "checkpoints" not in path.parts, path


def do_carried(job: Job, store: Store, every: float = PUSH_SECONDS) -> tuple[str, dict[str, bytes]]:
    """`do_job` in a scratch folder that begins with the store's copy and is saved to the store every so many seconds.
    Returns an error message, or '', and the files for the job's results folder."""
    name = job.name.replace("/", "--")
    with tempfile.TemporaryDirectory() as scratch:
        folder, over = Path(scratch), Event()
        here = replace(job, runs=folder / "runs", results=folder / "results" / job.results.name)
        store.fetch(name, folder)

        def keep() -> None:
            while not over.wait(every):
                try:
                    store.push(name, folder)
                except FileNotFoundError:  # a checkpoint was just replaced by a newer one; try again soon
                    pass
                except Exception as why:  # whatever a store may raise: the run goes on, and so do later tries
                    print(f"{name} could not be kept in {store.url} ({why}); tried again soon.", file=sys.stderr)

        thread = Thread(target=keep, daemon=True)
        thread.start()
        try:
            trouble = do_job(here)
        finally:
            over.set()
            thread.join()
        store.push(name, folder)
        return trouble, {path.name: path.read_bytes() for path in here.results.glob("*")}
