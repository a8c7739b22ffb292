"""The recipes of docs/own-code.md run as they are printed, for fewer steps."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[3] / "docs" / "own-code.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_recipe_runs(number, tmp_path, monkeypatch, capsys):
    source = BLOCKS[number]
    if "stable_baselines3" in source and importlib.util.find_spec("stable_baselines3") is None:
        pytest.skip('needs the extra: pip install "megareward[sb3]"')
    monkeypatch.chdir(tmp_path)
    exec(compile(source.replace("200_000", "128"), f"recipe {number}", "exec"), {"__name__": "recipe"})


def test_there_are_three_recipes():
    assert len(BLOCKS) == 3


def port_script():
    spec = importlib.util.spec_from_file_location("port_cleanrl", PAGE.parents[1] / "scripts" / "port_cleanrl.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_edits_of_cleanrls_script_are_those_on_the_page():
    [block] = re.findall(r"```diff\n(.*?)```", PAGE.read_text(), re.DOTALL)
    printed = [line[2:] for line in block.splitlines() if line.startswith("+")]
    new = "".join(text.replace("METHOD", "mega") for _, _, text in port_script().EDITS)
    assert printed == [line.removeprefix("\\1") for line in new.splitlines() if line.removeprefix("\\1").strip()]


STAND_IN = """
from somewhere.atari_wrappers import (  # a stand-in with the same landmarks
    A,
)
kept = 1
def make_env():
    def thunk():
        return A
    return thunk

def loop(args, device, obs, action, step, gym):
    envs = gym.vector.SyncVectorEnv(
        [],
    )
    next_obs, _ = envs.reset(seed=args.seed)
    for _ in range(2):
        for _ in range(3):
            next_obs, reward, terminations, truncations, infos = envs.step(action)
        # bootstrap value if not done
        advantages = rewards
"""


def test_the_port_keeps_what_it_does_not_know_and_refuses_another_script():
    script = port_script()
    new = script.ported(STAND_IN, "count")
    compile(new, "ported", "exec")
    assert "kept = 1" in new
    assert "advantages = rewards" in new
    assert "make_env" not in new
    assert 'megareward.make("count", envs, device=device, seed=args.seed)' in new
    with pytest.raises(SystemExit, match="Found 0 places instead of one"):
        script.ported("print()", "count")


def test_the_ports_advantages_by_hand_end_with_the_episode():
    """Two steps, gamma 0.5, lambda 0.5: errors 1 + 0.5 * 2 - 0 = 2 and 1 + 0.5 * 4 - 2 = 1, or 1 - 2 = -1 at an end."""
    script = port_script()
    rewards, values = np.ones((2, 2)), np.array([[0.0, 0.0], [2.0, 2.0]])
    over = np.array([[False, False], [False, True]])
    hand = script.by_hand(rewards, values, over, np.array([4.0, 4.0]), 0.5, 0.5)
    assert hand.tolist() == [[2.25, 1.75], [1.0, -1.0]]
