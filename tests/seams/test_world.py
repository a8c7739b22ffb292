"""A World Model between runs: learnt in random play without the score, frozen under a policy that is trained on it."""

import pytest
import torch

from megareward.cli import main
from megareward.envs.mini import PongConfig
from megareward.errors import UsageError
from megareward.runs.checkpoint import load_newest
from megareward.state import part
from megareward.training.clock import Clock
from megareward.training.loop import Trainer
from megareward.training.run import start
from tests.seams.small_runs import N, T, assert_same_tensors, run, run_with_a_stop, small, whole

CPU = torch.device("cpu")


def learnt(path, prefix="observer.world.model"):
    found = load_newest(path / "checkpoints", pytest.fail)
    assert found is not None
    return part(found[1], prefix)


@pytest.fixture
def world(tmp_path):
    run(small("world"), tmp_path / "world")
    return tmp_path / "world"


def test_v_and_m_are_taken_over_and_stay_as_they_are(world, tmp_path, capsys):
    config = small("world-model", start_from=str(world))
    assert config.warmup_iterations == 0  # there is nothing left to learn from random play
    start(config, tmp_path / "new", tensorboard=False)
    said = capsys.readouterr().err
    assert "Carried over: what the observer 'world' has learnt. Fresh: the whole policy, optimiser" in said
    assert_same_tensors(learnt(world), learnt(tmp_path / "new"))


def test_without_such_a_run_they_learn_in_the_warm_up_and_are_frozen_with_its_end():
    weights = [
        {n: t for n, t in whole(small("world-model", frames=frames * N * T))[0].weights.items() if "networks" in n}
        for frames in (1, 2, 4)
    ]
    fresh = Trainer(small("world-model"), CPU).observers["world"].state_dict()
    assert any(not torch.equal(fresh[name.removeprefix("observer.world.")], weights[0][name]) for name in weights[0])
    assert_same_tensors(weights[0], weights[1])  # the warm-up is one rollout
    assert_same_tensors(weights[1], weights[2])


def test_what_would_never_learn_is_refused():
    with pytest.raises(UsageError, match="V and M learn from random play, but --warmup-steps is 0"):
        Trainer(small("world-model", warmup_steps=0), CPU)


def test_the_memory_of_a_frame_is_that_of_its_own_episode():
    trainer = Trainer(small("world", env=PongConfig(max_steps=5)), CPU)
    trainer.begin()
    trainer.collector.collect(Clock(), random=True)
    rollout, observer = trainer.rollout, trainer.observers["world"]
    h, z, model = rollout.fields["world_h"], rollout.fields["world_z"], observer.model
    assert rollout.first[1:].any()
    assert not h[rollout.first].any()
    state = (torch.zeros(N, model.hidden), torch.zeros(N, model.hidden))
    for t in range(T):
        state = model.memory.advance(z[t], rollout.actions[t], state)
        state = tuple(s.masked_fill(rollout.first[t + 1][:, None], 0.0) for s in state)
        torch.testing.assert_close(h[t + 1], state[0])
        torch.testing.assert_close(z[t], model.codes(rollout.recorded().frames[t])[0])


def test_a_run_that_started_from_one_is_resumed_like_the_others(world, tmp_path):
    config = small("world-model", start_from=str(world))
    one, _ = run(config, tmp_path / "whole")
    stopped = run_with_a_stop(config, tmp_path / "stopped", 29, "power cut")
    assert_same_tensors(one.weights, stopped.weights)


def test_dreams_are_drawn_and_a_controller_is_looked_for(world, tmp_path, capsys):
    out = tmp_path / "dream.png"
    words = ["dream", str(world), "--out", str(out), "--steps", "9", "--device", "cpu"]
    assert main(words) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    run(small("rnd"), tmp_path / "rnd")
    assert main(["dream", str(tmp_path / "rnd")]) == 2
    assert "has no World Model; `megareward pretrain world` makes one" in capsys.readouterr().err
    for option, value in (("--steps", "3"), ("--temperature", "0"), ("--population", "2"), ("--generations", "0")):
        assert main([*words, option, value]) == 2
        assert f"{option} is {value}" in capsys.readouterr().err


def test_the_controller_is_found_by_the_command(world, tmp_path, capsys):
    pytest.importorskip("cma")
    sizes = "--controller --generations 2 --population 4 --games 2 --play-steps 20 --device cpu"
    assert main(["dream", str(world), "--out", str(tmp_path / "dream.png"), *sizes.split()]) == 0
    said = capsys.readouterr().out
    assert "generation 2: mean" in said
    assert "C scores" in said
    assert "random play" in said
