"""Any method of the zoo inside training code that is not ours.

`make` builds a reward from spaces alone (api, reward). Around it: a Gymnasium vector wrapper (gymnasium_wrapper), a
callback and a wrapper for Stable-Baselines3 (stable_baselines3; an extra) and classes for RLeXplore scripts
(rlexplore). `steps` converts their steps into our stream of frames; `observations` says which observations are read.
"""

from typing import Any

__all__ = ["IntrinsicReward", "make"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # loaded on first use, so that importing the package stays quick
        from megareward.integration import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
