"""The examples run, in small."""

import importlib.util
import json
import math
import re
from pathlib import Path
from types import ModuleType

import matplotlib
import numpy as np
import pytest

from tests.unit.integration.tapes import REWARDING

FOLDER = Path(__file__).parents[3] / "examples"
needs_sb3 = pytest.mark.skipif(
    importlib.util.find_spec("stable_baselines3") is None, reason='needs the extra: pip install "megareward[sb3]"'
)


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_notebook_runs_from_top_to_bottom(monkeypatch, capsys):
    """Cell by cell, as Jupyter would, with a run of a few rollouts."""
    monkeypatch.setenv("NOTEBOOK_FRAMES", "8192")
    matplotlib.use("Agg")
    notebook = json.loads((FOLDER / "what_does_my_agent_control.ipynb").read_text())
    space: dict[str, object] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []  # kept out of the repository
            exec("".join(cell["source"]), space)
    out = capsys.readouterr().out
    assert re.search(r"trained -?\d\.\d\d \+- \d\.\d\d, random play -?\d\.\d\d", out)
    assert re.search(r"direct_auroc (0\.\d{3}|1\.000)", out)


@needs_sb3
def test_stable_baselines3_on_a_mini_game():
    assert example("sb3_mini_pong").main(steps=2 * 4 * 16, n_envs=4, rollout=16, warmup=64) == []  # no game is over yet


@needs_sb3
def test_stable_baselines3_on_an_atari_game():
    from megareward.control.config import AdmConfig, ControlConfig, RtmConfig

    tiny = ControlConfig(adm=AdmConfig(features=8), rtm=RtmConfig(channels=2, features=8, gamma_features=8), batch=8)
    assert example("sb3_atari").main("pong", steps=16, n_envs=2, rollout=8, device="cpu", control=tiny) == []


@pytest.mark.parametrize("method", REWARDING)
def test_a_loop_in_cleanrls_manner(method):
    example("cleanrl_style_ppo").main(method, iterations=2, n_envs=4, T=16)


def test_the_loop_counts_the_score_of_whole_games():
    scores = example("cleanrl_style_ppo").main("extrinsic", iterations=1, n_envs=8, T=400)
    assert scores
    assert all(-5 <= score <= 5 for score in scores)


def test_a_script_for_rlexplore():
    assert math.isfinite(example("rlexplore_drop_in").main(iterations=2, n_envs=4, n_steps=8))


def test_maps_of_somebody_else():
    frames = np.zeros((3, 8, 8), dtype=np.uint8)
    frames[2, 5, 1] = 9
    maps = example("control_maps")
    assert maps.frame_difference(frames, np.zeros(2), (2, 2)).sum((1, 2)).tolist() == [0, 0, 9]
    assert maps.motion_mask(frames, np.zeros(2), (2, 2))["g"][2].tolist() == [[False, False], [True, False]]


def test_every_example_is_run_here():
    here = Path(__file__).read_text()
    assert all(f'example("{file.stem}")' in here for file in FOLDER.glob("*.py"))


@needs_sb3
def test_the_comparison_of_the_two_loops_sums_up_what_the_runs_say():
    spec = importlib.util.spec_from_file_location("compare_sb3", FOLDER.parent / "scripts" / "compare_sb3.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    runs = [{"loop": "own", "score": x} for x in (1.0, 2.0, 3.0)] + [{"loop": "sb3", "score": x} for x in (2.0, 4.0)]
    summary = script.summary(runs)
    assert summary["difference"] == 1.0
    assert math.isclose(summary["standard_error"], math.sqrt(1 / 3 + 2 / 2))
