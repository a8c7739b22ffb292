"""Hand out work on a shared file system, each piece to one process at a time, even if processes die.

A claim is a file NAME.1, which only one process can create. Its holder touches it regularly. A claim that was not
touched for long belongs to a dead process, and the process that creates NAME.2 takes the work over, and so on. Claims
are never removed, so that two processes can never both find the work unclaimed.
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
"""Minutes without a touch after which a claim may be taken over."""
TOUCH_SECONDS = 60.0


@dataclass(frozen=True)
class Claim:
    """This process's claim on a piece of work."""

    path: Path

    def touch(self) -> None:
        os.utime(self.path)

    def release(self) -> None:
        """Let any process take it over at once."""
        os.utime(self.path, (0, 0))


def claim(folder: Path, name: str, *, stale_minutes: float = STALE_MINUTES, for_another: bool = False) -> Claim | None:
    """Claim this piece of work; None if another process has it. `for_another`: another process will do it, so the claim
    stays when this one ends."""
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
    """Whether the claim was released or its holder is dead: a process of this machine that no longer exists, or a claim
    that was not touched for long by the clock of the file system, which all machines share."""
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
    """Touch all claims in the list regularly; the list may change meanwhile. Release those in it at the end."""
    over = threading.Event()

    def touch() -> None:
        while not over.wait(every):
            for one in list(claims):
                with suppress(OSError):  # the folder is unreachable for a moment; try again soon
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
