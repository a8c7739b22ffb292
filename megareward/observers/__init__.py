"""What watches every new frame online and records fields about it; see `interface`. Free of torch.

One line of the table per observer; methods name the ones they need.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from megareward.observers.interface import Context, Observer

OBSERVERS: dict[str, str] = {
    "control": "megareward.observers.control",
    "masks": "megareward.observers.masks",
    "objects": "megareward.observers.objects",
    "skills": "megareward.observers.skills",
    "manager": "megareward.hierarchy.skill_manager",
    "levels": "megareward.hierarchy.levels",
    "world": "megareward.observers.world",
}
"""Name -> module with `build(context) -> Observer`."""


def build_observer(name: str, context: "Context") -> "Observer":
    observer: Observer = importlib.import_module(OBSERVERS[name]).build(context)
    return observer
