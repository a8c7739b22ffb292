"""Whatever happens to a run, it goes on or says in one sentence why not; `scripts/chaos.py`, here in its short form."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "chaos.py"


@pytest.mark.slow
def test_kills_corruptions_full_disks_company_and_odd_words_end_well():
    command = [sys.executable, str(SCRIPT), "--short", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("OK: 0 findings in ")
