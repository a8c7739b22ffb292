"""The manager over finished skills: when it picks, what it is paid for, and that it finds the skill that pays."""

from dataclasses import replace

import pytest
import torch

from megareward.control.config import ControlConfig
from megareward.hierarchy.skill_manager import SkillManager
from megareward.observers.interface import Context, Seen
from megareward.rewards.settings import StoManagerConfig
from megareward.rollout import Rollout
from megareward.world import World
from tests.seams.small_runs import run, small

CPU, SHAPE = torch.device("cpu"), (12, 10)
N, K, T = 5, 3, 6


def observer(n_envs: int = N, hold: int = 4, episodic: bool = True, **settings: float) -> SkillManager:
    world = replace(World(n_envs, 2, SHAPE, CPU, 0), episodic=episodic)
    config = StoManagerConfig(n_skills=K, hold=hold, **settings)
    return SkillManager(Context(world, None, ControlConfig(), config))  # type: ignore[arg-type]


def seen(n: int, first: torch.Tensor, generator: torch.Generator) -> Seen:
    stacks = torch.randint(256, (n, 4, *SHAPE), generator=generator).to(torch.uint8)
    return Seen(stacks, torch.zeros(n, dtype=torch.int64), first, torch.arange(n))


def test_a_code_is_held_for_some_steps_and_picked_anew_at_every_first_frame(generator):
    manager, skills, drawn = observer(), [], []
    first = torch.zeros(11, N, dtype=torch.bool)
    first[0], first[6, 2] = True, True
    for t in range(11):
        manager.prepare(0)
        fields = manager.advance(seen(N, first[t], generator))
        skills.append(fields["skill"])
        drawn.append(fields["skill_drawn"])
    picks = torch.stack(drawn)
    assert picks[:, 0].nonzero().flatten().tolist() == [0, 4, 8]
    assert picks[:, 2].nonzero().flatten().tolist() == [0, 4, 6, 10]
    codes = torch.stack(skills)
    assert torch.equal(codes[1:][~picks[1:]], codes[:-1][~picks[1:]])
    assert len(codes.unique()) == K


@pytest.mark.parametrize("episodic", [True, False])
def test_it_learns_which_code_pays(episodic, generator):
    """A point for every step in which the code is 1; episodes end now and then."""
    n = 16
    manager = observer(n, hold=2, episodic=episodic, learning_rate=3e-3)
    rollout = Rollout(T, World(n, 2, SHAPE, CPU, 0), 4, fields=manager.fields, keeps_score=True)
    share = 0.0
    for _ in range(60):
        rollout.all_frames.copy_(torch.randint(256, rollout.all_frames.shape, generator=generator))
        rollout.flags[..., 0] = torch.rand(T + 1, n, generator=generator) < 0.1
        rollout.flags[:-1, :, 1] = rollout.flags[1:, :, 0]
        for t in range(T + 1):
            manager.prepare(0)
            stacks = rollout.stacks(torch.arange(n) + t * n)
            fields = manager.advance(Seen(stacks, torch.zeros(n), rollout.flags[t, :, 0], torch.arange(n)))
            for name, values in fields.items():
                rollout.fields[name][t] = values
        right = (rollout.fields["skill"][:-1] == 1).float() * rollout.real
        rollout.r_ext[1:] = 7 * right  # a big score counts no more than a small one
        manager.learn(rollout)
        share = float(right.sum() / rollout.real.sum())
    assert share > 0.9


def test_the_skills_stay_what_they_are_and_the_manager_moves(tmp_path):
    outcome, _ = run(small("sto-manager"), tmp_path / "run")
    short, _ = run(small("sto-manager", frames=36), tmp_path / "short")
    moved = {name for name in outcome.weights if not torch.equal(outcome.weights[name], short.weights[name])}
    assert not {name for name in moved if name.startswith("policy.")}
    assert any(name.startswith("observer.manager.policy") for name in moved)
