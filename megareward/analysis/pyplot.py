"""matplotlib, which only figures need."""

from typing import Any

from megareward.errors import UsageError


def pyplot() -> Any:
    """`matplotlib.pyplot`, drawing into files. A command that ends with a figure asks for it before it begins."""
    try:
        import matplotlib
    except ModuleNotFoundError as missing:
        raise UsageError('Figures need matplotlib; pip install "megareward[figures]" brings it.') from missing
    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot
