"""matplotlib, which only figures need."""

from typing import Any

from megareward.errors import UsageError


def pyplot() -> Any:
    """`matplotlib.pyplot`, drawing into files. Commands that end with a figure call this first, so that a missing one
    fails early."""
    try:
        import matplotlib
    except ModuleNotFoundError as missing:
        raise UsageError('Figures need matplotlib; pip install "megareward[figures]" brings it.') from missing
    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot
