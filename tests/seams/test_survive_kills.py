"""kill -9 at any moment leaves a folder that resumes; `scripts/survive_kills.py` shows it, here in a short version."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "survive_kills.py"


@pytest.mark.slow
def test_a_run_survives_being_killed_while_it_saves_and_while_it_trains():
    command = [sys.executable, str(SCRIPT), "--kills", "3", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("OK: 3 kills")
