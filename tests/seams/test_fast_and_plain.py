"""The fast paths and the plain one produce the same learning data, bit for bit where they should."""

import json
from dataclasses import replace

import pytest
import torch

from megareward.cli import main
from megareward.envs.atari_config import AtariConfig
from megareward.envs.interface import BatchedEnv
from megareward.errors import UsageError
from megareward.observers.interface import Observer
from megareward.ppo.agent import Agent
from megareward.ppo.config import PPOConfig
from megareward.rollout import Rollout
from megareward.training.config import TrainConfig
from megareward.training.fast_collect import FastCollector
from megareward.training.loop import Trainer
from megareward.training.presets import with_preset, without_fast_paths
from tests.seams.small_runs import TINY_CONTROL, assert_same, assert_same_tensors, run, small, whole

CPU = torch.device("cpu")


def test_plain_switches_off_all_that_is_only_fast_and_nothing_else():
    config = with_preset(
        TrainConfig(
            method="mega",
            game="breakout",
        ),
        "many",
    )
    plain = without_fast_paths(config)
    assert {vars(plain.control.execution)[name] for name in ("bf16", "dense", "fused", "folded", "graph")} == {"off"}
    assert (plain.control.overlap, plain.env.groups) == ("off", 1)
    assert (plain.ppo.precision, plain.ppo.cuda_graphs) == ("float32", False)
    restored = replace(
        plain,
        ppo=replace(plain.ppo, precision=config.ppo.precision, cuda_graphs=config.ppo.cuda_graphs),
        control=replace(plain.control, execution=config.control.execution, overlap=config.control.overlap),
        env=replace(plain.env, groups=config.env.groups),
    )
    assert restored == config


def test_the_command_line_knows_plain(tmp_path):
    command = "train mega --preset debug --plain --quiet --no-tensorboard --device cpu --out"
    assert main([*command.split(), str(tmp_path / "run")]) == 0
    control = json.loads((tmp_path / "run" / "config.json").read_text())["config"]["control"]
    assert (control["overlap"], control["execution"]["graph"]) == ("off", "off")


@pytest.mark.parametrize("method", ["extrinsic", "mega", "rnd", "emp", "sto", "sto-manager", "div", "world-model"])
def test_on_a_cpu_without_overlap_the_fast_run_and_the_plain_run_are_the_same_bit_for_bit(method, tmp_path):
    # Dense convolutions and folded weights round differently; everything else that is fast needs a GPU.
    execution = replace(TINY_CONTROL.execution, dense="off", folded="off")
    config = small(method, control=replace(TINY_CONTROL, execution=execution))
    assert_same(whole(config)[0], run(without_fast_paths(config), tmp_path / "plain")[0])


def fast_collector(
    config: TrainConfig,
    env: BatchedEnv,
    rollout: Rollout,
    observers: dict[str, Observer],
    agent: Agent,
    generator: torch.Generator,
) -> FastCollector:
    """What a GPU uses, without graphs, where `make_collector` would take the plain one."""
    return FastCollector(env, rollout, list(observers.values()), agent, generator, graphs=False)


@pytest.mark.parametrize("overlap", ["off", "on"])
@pytest.mark.parametrize(
    "method", ["mega", "rnd", "emp", "extrinsic", "random", "sto", "sto-manager", "div", "world-model", "world"]
)
def test_the_fast_collector_and_the_plain_one_give_the_same_run_bit_for_bit(method, overlap, tmp_path, monkeypatch):
    config = small(method, control=replace(TINY_CONTROL, overlap=overlap))
    plain, _ = whole(config)
    monkeypatch.setattr("megareward.training.loop.make_collector", fast_collector)
    assert_same(plain, run(config, tmp_path / "fast")[0])


@pytest.mark.parametrize("groups", [1, 2])
def test_the_plain_collector_is_taken_where_there_is_nothing_to_be_fast_with(groups):
    trainer = Trainer(breakout("extrinsic", groups), CPU)
    trainer.env.close()
    assert isinstance(trainer.collector, FastCollector) == (groups == 2)


# Groups of Atari environments ----------------------------------------------------------------------------------------

N_ATARI, T_ATARI = 4, 6


def breakout(method: str, groups: int, **changes: object) -> TrainConfig:
    return small(
        method,
        game="breakout",
        env=AtariConfig(threads=1, max_frames=40, groups=groups),
        n_envs=N_ATARI,
        rollout_steps=T_ATARI,
        ppo=PPOConfig(minibatches=2, epochs=1),
        frames=3 * N_ATARI * T_ATARI * 4,
        **changes,
    )


def trained(config: TrainConfig, iterations: int = 3) -> tuple[Trainer, list]:
    trainer = Trainer(config, CPU)
    trainer.begin()
    episodes = []
    for _ in range(iterations):
        episodes += trainer.iterate()[1]
    trainer.finish()
    trainer.env.close()
    return trainer, episodes


@pytest.mark.parametrize("n_groups", [2, 4])
@pytest.mark.parametrize("overlap", ["off", "on"])
def test_groups_and_overlap_leave_no_trace_in_what_is_recorded_and_learnt(n_groups, overlap):
    """Random actions, as in the warm-up: no rounding of the policy can decide anything."""
    control = replace(TINY_CONTROL, batch=8, overlap=overlap)
    (one, games), (many, same_games) = (
        trained(breakout("mega", n, control=control, warmup_steps=10**6)) for n in (1, n_groups)
    )
    assert len(games) >= N_ATARI
    assert games == same_games
    assert_same_tensors(one.observers["control"].state_dict(), many.observers["control"].state_dict())
    for name in ("all_frames", "flags", "age", "actions"):
        assert torch.equal(getattr(one.rollout, name), getattr(many.rollout, name)), name
    for name in ("direct", "g", "mega_reward"):  # products of matrices of fewer rows may round differently
        torch.testing.assert_close(one.rollout.fields[name], many.rollout.fields[name])
    assert one.rollout.fields["g"].max() > 0


@pytest.mark.parametrize("method", ["sto", "sto-manager", "div"])
def test_groups_leave_no_trace_in_the_codes_by_which_a_policy_acts(method):
    one, two = (trained(breakout(method, n, warmup_steps=10**6))[0].rollout for n in (1, 2))
    assert torch.equal(one.actions, two.actions)
    for name, values in one.fields.items():
        torch.testing.assert_close(values, two.fields[name])
    assert len(one.fields["skill"].unique()) > 1


def test_a_policy_acts_in_groups_as_it_does_in_one():
    one, two = (trained(breakout("extrinsic", n), iterations=1)[0] for n in (1, 2))
    assert torch.equal(one.rollout.actions, two.rollout.actions)
    torch.testing.assert_close(one.rollout.log_probs, two.rollout.log_probs)
    torch.testing.assert_close(one.rollout.values, two.rollout.values)


def test_groups_that_do_not_fit_are_refused_with_the_remedy():
    with pytest.raises(UsageError, match=r"--env.groups is 3, which does not divide the 4 environments"):
        breakout("mega", 3)
