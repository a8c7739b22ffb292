"""Imports go downwards only, and the core needs nothing but torch, numpy and the emulator."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import megareward

ROOT = Path(megareward.__file__).parent

ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "types": set(),
    "quantities": {"errors"},
    "progress": {"quantities"},
    "graphs": set(),
    "dice": set(),
    "streams": set(),
    "envs": {"envs", "errors", "types"},
    "ppo": {"ppo", "graphs", "errors", "types"},
    "control": {"control", "graphs", "streams", "dice", "errors", "types"},
    "rewards": {"rewards", "control", "ppo.config", "graphs", "dice", "errors", "types"},
    "audit.branches": {"control", "envs", "types"},
    "audit.oracle": {"audit.branches", "control", "envs", "errors", "types"},
    "training": {
        *("training", "rewards", "control", "ppo", "envs", "graphs", "streams", "dice", "quantities", "errors"),
        "types",
        "audit.oracle",  # a diagnosis that takes the tracker's place; the rest of the audit stands on top of training
    },
    "integration": {"integration", "rewards", "control", "envs", "errors", "types"},
    "analysis": {"analysis", "training.config", "training.run_folder", "envs.games", "quantities", "errors"},
}
"""What each part may import of the package. The parts not named here (cli, bench) stand on top: all is open to
them, and nobody may import them. `rewards` sees of PPO only what a stream of reward is."""


def modules() -> list[str]:
    """Every module of the package as a dotted name below it."""
    files = sorted(ROOT.rglob("*.py"))
    names = (".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files)
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
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    known = set(modules())
    return {name.removeprefix("megareward.") for name in found} & known


def within(module: str, part: str) -> bool:
    return module == part or module.startswith(part + ".")


@pytest.mark.parametrize("part", ALLOWED)
def test_a_part_imports_only_what_lies_below_it(part):
    members = [module for module in modules() if within(module, part)]
    assert members
    for module in members:
        for imported in imports_of(module):
            parent_of_allowed = any(within(allowed, imported) for allowed in ALLOWED[part])  # a package's own __init__
            fine = parent_of_allowed or any(within(imported, allowed) for allowed in ALLOWED[part])
            assert fine, f"megareward.{module} imports megareward.{imported}"


def test_nothing_is_left_out_of_the_rules():
    tops = {"cli", "bench", "experiments", "viewer", "audit"}
    strangers = [m for m in modules() if not any(within(m, part) for part in [*ALLOWED, *tops])]
    assert strangers == []


def test_the_reader_of_imports_sees_nested_and_plain_ones():
    assert "rewards.extrinsic" not in imports_of("rewards")  # built by name, only when it is needed
    assert "envs.atari" in imports_of("envs.make")  # inside a function
    assert "ppo.loss" in imports_of("ppo.update")  # from package import module


def run_python(source: str) -> None:
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


BLOCKED = """
import importlib, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""

TOOLS = {"tyro", "rich", "tensorboard", "safetensors", "matplotlib", "jaxtyping", "beartype", "PIL", "pandas"}


def test_the_core_needs_only_torch_numpy_gymnasium_and_ale_py():
    core = [
        m for m in modules() if m.split(".")[0] in ("control", "ppo", "rewards", "envs", "errors", "types", "graphs")
    ]
    drawing = {"envs.contact_sheet"}  # a picture for people, not part of any run
    triton = {m for m in core if "import triton" in path_of(m).read_text()}  # comes with torch for GPUs only
    wanted = [f"megareward.{m}" for m in core if m not in drawing | triton]
    assert len(wanted) > 20
    run_python(BLOCKED.format(names=TOOLS) + f"for name in {wanted}: importlib.import_module(name)")


def test_only_the_command_line_parses_arguments():
    parsers = {m for m in modules() if re.search(r"^\s*(import|from) (tyro|argparse)\b", path_of(m).read_text(), re.M)}
    assert {m for m in parsers if not within(m, "cli")} == set()
    assert "cli.train" in parsers


def test_analysis_needs_no_torch():
    wanted = [f"megareward.{m}" for m in modules() if within(m, "analysis")]
    check = f"for name in {wanted}: importlib.import_module(name)\n"
    table = "from megareward.analysis.results import table\ntable([])\n"
    run_python(BLOCKED.format(names={"torch"}) + check + table)


def test_settings_games_and_methods_are_known_without_torch():
    wanted = ["megareward.training.config", "megareward.runs.folder", "megareward.envs.games"]
    wanted += [f"megareward.{m}" for m in modules() if within(m, "cli") and not m.endswith("__main__")]
    run_python(BLOCKED.format(names={"torch", "ale_py"}) + f"for name in {wanted}: importlib.import_module(name)")


def test_importing_the_whole_core_opens_no_device():
    source = (
        "import megareward.training.run, megareward.training.evaluate, torch; assert not torch.cuda.is_initialized()"
    )
    run_python(source)
