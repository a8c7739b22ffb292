"""Hand out work on a shared file system, each piece to one process at a time, whoever dies on the way.

A claim is a file NAME.1 that one process creates and nobody else can. Its holder touches it now and then. One that has
not been touched for long belongs to a process that is gone; whoever creates NAME.2 takes it over, and so on. No claim
is ever removed, so that no two processes can both believe to have found the work unclaimed.
"""

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

STALE_MINUTES = 15.0
"""After so long without a touch a claim may be taken over."""
TOUCH_SECONDS = 60.0


@dataclass(frozen=True)
class Claim:
    """A piece of work that is this process's own."""

    path: Path

    def touch(self) -> None:
        os.utime(self.path)

    def release(self) -> None:
        """Whoever wants it may take it over at once."""
        os.utime(self.path, (0, 0))


def claim(folder: Path, name: str, *, stale_minutes: float = STALE_MINUTES, for_another: bool = False) -> Claim | None:
    """This piece of work, or None if it is somebody else's. `for_another`: it is not this process that will do it, so
    that its end says nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    last = newest(folder, name)
    if last and not _is_free(folder, last, stale_minutes):
        return None
    mine = folder / f"{name}.{_number(last) + 1 if last else 1}"
    try:
        with open(mine, "x") as file:
            json.dump({"host": socket.gethostname(), "pid": None if for_another else os.getpid()}, file)
    except FileExistsError:  # another process was faster
        return None
    return Claim(mine)


def newest(folder: Path, name: str) -> Path | None:
    """The last claim on this piece of work."""
    claims = [path for path in folder.glob(f"{name}.*") if path.suffix[1:].isdecimal() and path.stem == name]
    return max(claims, key=_number, default=None)


def _number(path: Path) -> int:
    return int(path.suffix[1:])


def _is_free(folder: Path, last: Path, stale_minutes: float) -> bool:
    """Whether its holder has let it go, or is gone: a process of this machine that does not exist any more, or one that
    has not been heard of for long by the clock of the file system, which all machines share."""
    age = _now(folder) - last.stat().st_mtime
    if age > 60 * stale_minutes:
        return True
    try:
        holder = json.loads(last.read_bytes())
        return holder["host"] == socket.gethostname() and holder["pid"] is not None and not _exists(holder["pid"])
    except (ValueError, KeyError):  # created a moment ago and not written yet
        return False


def _now(folder: Path) -> float:
    clock = folder / f".clock-{socket.gethostname()}-{os.getpid()}"
    try:
        clock.touch()
        return clock.stat().st_mtime
    finally:
        clock.unlink(missing_ok=True)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def kept_alive(claims: list[Claim], every: float = TOUCH_SECONDS) -> Iterator[None]:
    """Touch all claims in the list, which may change meanwhile; what is left in it at the end is released."""
    over = threading.Event()

    def touch() -> None:
        while not over.wait(every):
            for one in list(claims):
                with suppress(OSError):  # a folder that is away for a moment; soon again
                    one.touch()

    thread = threading.Thread(target=touch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for one in claims:
            one.release()
