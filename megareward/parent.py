"""A process of a sweep ends with the sweep, even if that was killed: nobody would record what it trains, and the next
sweep waits for it."""

import os
import signal
import threading
import time

PARENT = "MEGAREWARD_PARENT"
"""Environment variable: the process that a command is to end with."""
EVERY = 0.5
"""Seconds between two checks."""


STOPPING = threading.Event()
"""Set while this process is stopping because of a signal. A second one would be an order to stop at once."""


def end_with(parent: int) -> threading.Thread:
    """Ask this process to stop, as by SIGTERM, as soon as it is no longer a child of `parent`. Returns the thread that
    watches."""
    watch = threading.Thread(target=_watch, args=(parent,), daemon=True)
    watch.start()
    return watch


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(EVERY)
    if not STOPPING.is_set():  # the signal that ended the sweep may have come here, too
        os.kill(os.getpid(), signal.SIGTERM)
