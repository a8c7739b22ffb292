"""Rooms for others: a reward, an observer, a game and a wrapper, each one file of its own and one row in a table.

Nothing in the package knows them. They train, are logged, evaluated, stopped and resumed like our own.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from megareward.cli import main
from megareward.envs.games import register, unregister
from megareward.observers import OBSERVERS
from megareward.rewards import METHODS
from megareward.training.clock import Clock
from megareward.training.evaluate import evaluate_run
from megareward.training.loop import Trainer
from tests.outside import toy_env, toy_observer, toy_reward, toy_wrapper
from tests.seams.small_runs import Outcome, assert_same, run_with_a_stop, small, whole

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def rows() -> Iterator[None]:
    """One line each."""
    METHODS[toy_reward.ROW.name] = toy_reward.ROW
    METHODS[toy_observer.ROW.name] = toy_observer.ROW
    OBSERVERS[toy_observer.OBSERVER[0]] = toy_observer.OBSERVER[1]
    register(toy_env.ROW)
    register(toy_wrapper.ROW)
    yield
    for name in (toy_reward.ROW.name, toy_observer.ROW.name):
        del METHODS[name]
    del OBSERVERS[toy_observer.OBSERVER[0]]
    for game in (toy_env.ROW, toy_wrapper.ROW):
        unregister(game.name)


DIMMER = {"game": "dimmer", "env": toy_env.DimmerConfig(), "g_channel": "no"}
CLOCK = {"game": "pong-with-clock"}
CASES = [
    ("bright", {"g_channel": "no"}),
    ("patience", {"g_channel": "no"}),
    ("extrinsic", DIMMER),
    ("bright", DIMMER),
    ("mega", CLOCK),
]


@pytest.mark.parametrize(("method", "changes"), CASES)
def test_it_trains_and_a_stop_in_the_middle_leaves_no_trace(method, changes, tmp_path):
    config = small(method, **changes)
    uninterrupted = whole(config)[0]
    assert f"reward/{'bright' if method == 'bright' else method}" in uninterrupted.metrics[-1]
    assert_same(uninterrupted, run_with_a_stop(config, tmp_path / "run", 29, "power cut"))


def test_the_policy_and_the_reward_see_what_the_observer_records():
    trainer = Trainer(small("patience", g_channel="no"), CPU)
    trainer.begin()
    trainer.iterate()
    trainer.collector.collect(_clock(), random=False)
    rollout, policy = trainer.rollout, trainer.agent.policy
    age = rollout.fields["age"]  # (T+1, N, 2)
    assert torch.equal(age[..., 0], age[..., 1] * 0.125)
    grows = torch.where(rollout.first[1:], 0.0, age[:-1, :, 1] + 1)
    assert torch.equal(age[1:, :, 1], grows)
    assert torch.equal(rollout.fields["phase"], age[..., 1].long() % 3)
    assert torch.equal(trainer.rewards.compute(rollout.recorded())[0], age[1:, :, 0].masked_fill(rollout.first[1:], 0))
    assert policy.action_head.in_features == (128 + 2) * 3  # trunk and vector, a block for each phase
    seen = trainer.agent.inputs.observe(rollout, torch.tensor([4]))
    one, two = policy(*seen), policy(*seen._replace(vector=seen.vector + 1))
    assert not torch.equal(one[0], two[0])


def test_a_toy_run_is_evaluated_by_the_command_that_evaluates_ours(tmp_path: Path, capsys):
    words = "--game dimmer --preset debug --quiet --no-tensorboard --out"
    assert main(["train", "bright", *words.split(), str(tmp_path / "run")]) == 0
    result = evaluate_run(tmp_path / "run", 2, device=CPU)
    assert result.scores == [1.0, 1.0]
    assert main(["methods"]) == 0
    assert "Bright frames." in capsys.readouterr().out
    assert main(["games"]) == 0
    assert "dimmer" in capsys.readouterr().out


def test_a_wrapper_changes_what_the_agent_sees_and_nothing_else():
    plain, wrapped = (Trainer(small("extrinsic", **changes), CPU) for changes in ({}, CLOCK))
    for trainer in (plain, wrapped):
        trainer.begin()
        trainer.collector.collect(_clock(), random=True)
    one, two = plain.rollout.all_frames, wrapped.rollout.all_frames
    assert torch.equal(one[:, :, 2:], two[:, :, 2:])
    assert two[-1, 0, 0, 0] == plain.rollout.T
    assert torch.equal(plain.rollout.flags, wrapped.rollout.flags)


def _clock() -> Clock:
    return Clock()


def test_outcomes_hold_what_the_observer_saved():
    outcome: Outcome = whole(small("patience", g_channel="no"))[0]
    assert outcome.tensors["observer.counter.episodes"] > 0
    assert "running.counter.age" in outcome.tensors
    assert outcome.metrics[-1]["counter/episodes"] > 0
