"""Draw the packages and one frame's way through them into docs/architecture.md, from the code itself.

    python scripts/architecture.py            write
    python scripts/architecture.py --check    exit status 1 if the page is not what the code says

The layers are read from the imports; the way of a frame is traced in a run of a second. Between the two markers of the
page nothing is written by hand.
"""

import ast
import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import megareward
from megareward.control.latent import advance
from megareward.control.learning.learner import ControlLearner
from megareward.control.models import ControlModels
from megareward.envs.mini.base import MiniGame
from megareward.observers.control import ControlObserver
from megareward.observers.tracker import ControlTracker
from megareward.ppo.agent import PPOAgent
from megareward.ppo.gae import gae
from megareward.ppo.policy import Policy
from megareward.ppo.update import PPO
from megareward.rewards.interface import ScaledRewards
from megareward.rewards.mega import Mega
from megareward.rollout import Rollout
from megareward.training.collect import Collector
from megareward.training.config import TrainConfig
from megareward.training.loop import Trainer
from megareward.training.presets import with_preset, without_fast_paths

ROOT = Path(megareward.__file__).resolve().parent
PAGE = ROOT.parent / "docs" / "architecture.md"
BEGIN, END = "<!-- drawn by scripts/architecture.py -->", "<!-- end of the drawing -->"

LAYERS: tuple[tuple[str, ...], ...] = (
    ("cli",),
    ("paper",),
    ("experiments", "viewer", "bench"),
    ("audit", "analysis"),
    ("training", "integration"),
    ("hierarchy",),
    ("observers", "rewards", "ppo"),
    ("rollout", "counterfactual", "things"),
    ("objects",),
    ("control", "world_model"),
    ("envs", "runs"),
    ("statistics", "progress"),
    ("cuda", "nets", "quantities", "reward_stream", "rng", "stacking", "state", "world"),
    ("cells", "errors", "parent", "types", "waiting"),
)
"""Top to bottom: a part may import itself and what lies in lower rows, nothing beside it and nothing above."""

STATIONS: tuple[Callable[..., Any], ...] = (
    Trainer.iterate,
    Collector.collect,
    Collector.step,
    PPOAgent.decide,
    Policy.forward,
    Rollout.decide,
    MiniGame.send,
    MiniGame.recv,
    Rollout.show,
    ControlObserver.advance,
    ControlTracker.advance,
    ControlModels.attend,
    advance,
    Rollout.record,
    ScaledRewards.compute,
    Mega.compute,
    PPOAgent.samples,
    gae,
    PPOAgent.learn,
    PPO.update,
    ScaledRewards.update,
    ControlObserver.learn,
    ControlLearner.begin_update,
)
"""Where a frame comes by, in this order: of its many calls in a rollout, the first of each."""


def modules() -> list[str]:
    """Every module of the package as a dotted name below it."""
    names = (".".join(file.relative_to(ROOT).with_suffix("").parts) for file in sorted(ROOT.rglob("*.py")))
    return [name.removesuffix(".__init__") for name in names if name != "__init__"]


def path_of(module: str) -> Path:
    file = ROOT.joinpath(*module.split("."))
    return file / "__init__.py" if file.is_dir() else file.with_suffix(".py")


def imports_of(module: str) -> set[str]:
    """All modules of the package that one of them imports, anywhere in its text: at the top or inside a function."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path_of(module).read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively; write the whole name"
            found.add(node.module or "")
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    known = set(modules())
    return {name.removeprefix("megareward.") for name in found} & known


def upward_imports() -> list[str]:
    """Imports that do not point downwards."""
    row = {part: number for number, parts in enumerate(LAYERS) for part in parts}
    found = []
    for module in modules():
        mine = module.split(".")[0]
        for imported in sorted(imports_of(module)):
            theirs = imported.split(".")[0]
            if theirs != mine and row[theirs] <= row[mine]:
                found.append(f"megareward.{module} imports megareward.{imported}")
    return found


def summary(part: str) -> str:
    """The first sentence of a part's docstring."""
    text = ast.get_docstring(ast.parse(path_of(part).read_text())) or ""
    return " ".join(text.split("\n\n")[0].split())


def drawn_packages() -> str:
    lines = ["```"]
    for number, parts in enumerate(LAYERS):
        lines += [f"{part + ('/' if (ROOT / part).is_dir() else '.py'):17} {summary(part)}" for part in parts]
        if number < len(LAYERS) - 1:
            lines.append("  |")
    return "\n".join([*lines, "```"])


def traced_way() -> list[Callable[..., Any]]:
    """The stations in the order in which a rollout of mega-reward on a mini game first calls them."""
    config = without_fast_paths(with_preset(TrainConfig(method="mega", game="mini-pong"), "debug"))
    trainer = Trainer(replace(config, warmup_steps=0), torch.device("cpu"))
    trainer.begin()
    codes = {inspect.unwrap(station).__code__: station for station in STATIONS}
    way: list[Callable[..., Any]] = []

    def watch(frame: Any, event: str, _argument: Any) -> None:
        station = codes.get(frame.f_code) if event == "call" else None
        if station is not None and station not in way:
            way.append(station)

    sys.setprofile(watch)
    try:
        trainer.iterate()
    finally:
        sys.setprofile(None)
    return way


def drawn_way() -> str:
    way = traced_way()
    files = [Path(inspect.getsourcefile(inspect.unwrap(s)) or "").relative_to(ROOT).as_posix() for s in way]
    hops = [file for i, file in enumerate(files) if i == 0 or file != files[i - 1]]
    lines = ["| file | call | what happens |", "|---|---|---|"]
    for file, station in zip(files, way, strict=True):
        text = " ".join((inspect.getdoc(station) or "").split("\n\n")[0].split())
        lines.append(f"| `{file}` | `{station.__qualname__}` | {text} |")
    visited = len(dict.fromkeys(hops))
    return "\n".join([*lines, "", f"{len(way)} calls in {visited} files; `loop.py` is entered once."])


def drawing() -> str:
    way = [station.__qualname__ for station in traced_way()]
    assert way == [station.__qualname__ for station in STATIONS], f"a frame goes another way: {way}"
    packages = "## The packages\n\nImports point downwards only (`tests/unit/test_imports.py` keeps it).\n\n"
    frame = "\n\n## One frame's way\n\nA rollout of mega-reward, traced; each call where it comes first.\n\n"
    return f"{BEGIN}\n{packages}{drawn_packages()}{frame}{drawn_way()}\n{END}"


def main() -> int:
    text = PAGE.read_text()
    start, end = text.index(BEGIN), text.index(END) + len(END)
    new = text[:start] + drawing() + text[end:]
    if "--check" in sys.argv:
        return int(new != text)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
