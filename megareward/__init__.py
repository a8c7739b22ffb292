"""megareward: agents that learn to play by seeking control."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from megareward.integration.api import make

__version__ = "0.1.0"
__all__ = ["__version__", "make"]


def __getattr__(name: str) -> Any:
    if name == "make":  # torch is loaded when a reward is made, not when the package is imported
        from megareward.integration.api import make

        return make
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
