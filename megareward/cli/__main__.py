"""`python -m megareward.cli`."""

from megareward.cli import run

run()
