"""Imports go downwards only, and the core needs nothing but torch, numpy and the emulator."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import megareward

ROOT = Path(megareward.__file__).parent


def load_script(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT.parent / "scripts" / f"{name}.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


architecture = load_script("architecture")
modules, path_of, imports_of = architecture.modules, architecture.path_of, architecture.imports_of


def within(module: str, part: str) -> bool:
    return module == part or module.startswith(part + ".")


def test_imports_point_downwards():
    assert architecture.upward_imports() == []


def test_every_part_of_the_package_has_its_place_in_the_layers():
    placed = [part for parts in architecture.LAYERS for part in parts]
    assert sorted(placed) == sorted({module.split(".")[0] for module in modules()})


@pytest.mark.parametrize(("part", "strangers"), [("rewards", {"ppo", "training"}), ("ppo", {"rewards", "control"})])
def test_rewards_and_the_agent_know_nothing_of_each_other(part, strangers):
    seen = {i.split(".")[0] for m in modules() if within(m, part) for i in imports_of(m)}
    assert not seen & strangers


def test_the_drawing_of_the_architecture_is_what_the_code_says():
    text = architecture.PAGE.read_text()
    assert architecture.drawing() in text, "run python scripts/architecture.py"


def test_the_reader_of_imports_sees_nested_and_plain_ones():
    assert "rewards.extrinsic" not in imports_of("rewards")  # built by name, only when it is needed
    assert "observers.oracle" in imports_of("observers.control")  # inside a function
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
    tops = {"cli", "experiments", "viewer", "bench", "audit", "analysis", "training", "integration", "runs"}
    core = [m for m in modules() if m.split(".")[0] not in tops]
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
