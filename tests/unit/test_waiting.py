"""A sign of life during one long call."""

import os
import pty
import subprocess
import sys
import textwrap


def on_a_terminal(source: str) -> str:
    master, slave = pty.openpty()
    done = subprocess.Popen([sys.executable, "-c", textwrap.dedent(source)], stderr=slave)
    os.close(slave)
    shown = b""
    while True:
        try:
            shown += os.read(master, 4096)
        except OSError:  # nobody writes any more
            break
    os.close(master)
    assert done.wait() == 0
    return shown.decode()


def holding(seconds: float) -> str:
    """A program that waits in one call without ever letting another thread in."""
    return f"""
        import ctypes
        from megareward.waiting import waiting
        with waiting("Counting", 3), waiting("Inside"):
            ctypes.PyDLL(None).usleep({int(seconds * 1e6)})
    """


def test_a_call_that_lets_no_thread_in_is_counted_every_second_and_leaves_an_empty_line():
    lines = on_a_terminal(holding(2.6)).split("\r")
    assert [line.strip() for line in lines] == ["", "Counting: 1 of about 3 s", "Counting: 2 of about 3 s", "", ""]


def test_short_work_and_quiet_work_say_nothing():
    assert on_a_terminal(holding(0.2)) == ""
    assert on_a_terminal("import megareward.waiting as w; w.quiet = True" + holding(1.5).replace("        ", "")) == ""


def test_nothing_is_said_where_stderr_is_no_file():
    source = "import sys, io; sys.stderr = io.StringIO()" + holding(1.2).replace("        ", "")
    assert "Counting" not in on_a_terminal(source)
