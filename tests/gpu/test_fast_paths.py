"""What only a GPU can show: captured graphs, two CUDA streams and groups of environments leave the numbers alone.

`scripts/gpu_check.sh` runs these, with all other tests that need a GPU.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

from megareward.control.config import AdmConfig, ControlConfig, ExecutionConfig, RtmConfig
from megareward.control.learning.pending_update import PendingUpdate
from megareward.control.learning.schedule import Schedule
from megareward.control.models import ControlModels
from megareward.cuda.streams import CudaStreams
from megareward.envs.atari_config import AtariConfig
from megareward.ppo.config import PolicyConfig, PPOConfig
from megareward.ppo.loss import log_prob_of
from megareward.rollout import Recorded
from megareward.runs.checkpoint import load_newest, save_checkpoint
from megareward.runs.folder import RunFolder
from megareward.training.clock import Clock
from megareward.training.collect import Collector
from megareward.training.config import TrainConfig
from megareward.training.fast_collect import FastCollector
from megareward.training.loop import Trainer
from megareward.training.presets import without_fast_paths
from megareward.training.run import resume, start
from megareward.training.saving import load, state_of, tensors_of
from megareward.types import Tensor
from tests.unit.rewards.recordings import world
from tests.unit.rewards.test_captured_steps import SETTINGS, make, rollout

pytestmark = pytest.mark.gpu

GPU = torch.device("cuda")
N, T = 8, 16
EXACT = ExecutionConfig(bf16="off")
"""Everything fast but the low precision."""
CONTROL = ControlConfig(
    adm=AdmConfig(channels=4, features=32, hidden=16),
    rtm=RtmConfig(channels=8, features=128, gamma_features=64),
    execution=EXACT,
    batch=32,
    passes=2,
    normalise_frames=N * T,
)
PONG = TrainConfig(
    method="mega",
    game="mini-pong",
    frames=10 * N * T,
    device="cuda",
    n_envs=N,
    rollout_steps=T,
    ppo=PPOConfig(minibatches=2, epochs=2),
    warmup_steps=10**9,
    control=CONTROL,
)
"""Random actions throughout: what is recorded does not depend on any rounding."""
LOCAL = replace(CONTROL, rtm=replace(CONTROL.rtm, model="local"))
INFORMATION = replace(LOCAL, adm=replace(LOCAL.adm, direct="information"))
"""Relations by sight."""


@contextmanager
def fixed_algorithms() -> Iterator[None]:
    before = torch.backends.cudnn.deterministic
    torch.backends.cudnn.deterministic = True
    try:
        yield
    finally:
        torch.backends.cudnn.deterministic = before


def learnt(config: TrainConfig, two_streams: bool, iterations: int = 6) -> tuple[list[Tensor], list[Tensor]]:
    """The lagged copy's weights at the end of every iteration, and g as recorded; in two CUDA streams or in one."""
    with fixed_algorithms():
        trainer = Trainer(config, GPU)
        if not two_streams:
            trainer.cuda_streams = schedule_of(trainer).cuda_streams = CudaStreams(GPU, enabled=False)
        trainer.begin()
        weights, maps = [], []
        for _ in range(iterations):
            trainer.iterate()
            parameters = trainer.observers["control"].models.modules.parameters()
            weights.append(torch.cat([p.detach().flatten() for p in parameters]).clone())
            maps.append(trainer.rollout.fields["g"].clone())
        trainer.finish()
        weights.append(
            torch.cat([p.detach().flatten() for p in schedule_of(trainer).learner.models.modules.parameters()]).clone()
        )
        trainer.env.close()
    return weights, maps


def test_an_update_that_lags_behind_reads_its_own_batches():
    """Steps are launched long before they run; what is allocated meanwhile must not get the memory of their batches."""
    streams, seen = CudaStreams(GPU), []
    with streams.main():
        batches = torch.arange(6 * 4096, device=GPU).reshape(6, 4096)
        wanted = batches.sum(1).tolist()
        update = PendingUpdate(list(batches), lambda numbers: seen.append(numbers.sum()) or {}, GPU)
        del batches
        with streams.side():
            torch.cuda._sleep(2 * 10**9)  # about a second
        for moment in range(3, 0, -1):
            with streams.side():
                update.work(moment)
        rubbish = [torch.full((6, 4096), -1, device=GPU) for _ in range(50)]
        streams.join()
        assert [int(value) for value in seen] == wanted
    del rubbish


def schedule_of(trainer: Trainer) -> Schedule:
    return trainer.observers["control"].schedule


def largest_difference(one: list[Tensor], two: list[Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("control", [CONTROL, LOCAL, INFORMATION], ids=["pairs", "local", "information"])
@pytest.mark.parametrize("graph", ["on", "off"])
def test_learning_in_the_side_stream_gives_the_weights_and_maps_of_learning_in_turn(graph, control):
    config = replace(PONG, control=replace(control, execution=replace(EXACT, graph=graph)))
    in_turn, again, beside = (learnt(config, two) for two in (False, False, True))
    for kind in (0, 1):
        noise = largest_difference(in_turn[kind], again[kind])  # 0 where all kernels add in a fixed order
        assert largest_difference(in_turn[kind], beside[kind]) <= 20 * noise
    assert largest_difference(in_turn[0][:1], in_turn[0][-1:]) > 1e-4  # something was learnt


@pytest.mark.parametrize("control", [CONTROL, LOCAL, INFORMATION], ids=["pairs", "local", "information"])
def test_an_update_and_the_change_of_the_lagged_copy_never_make_the_host_wait(control):
    trainer = Trainer(replace(PONG, control=control), GPU)
    trainer.begin()
    for _ in range(4):  # graphs are captured, the statistics of the frames are complete
        trainer.iterate()
    schedule, rollout = schedule_of(trainer), trainer.rollout
    first_on_cpu = rollout.first[1:].cpu()  # as environments on the CPU would tell
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with trainer.cuda_streams.main():
            schedule.begin(rollout.all_frames, rollout.actions, rollout.all_first, first_on_cpu, rollout.log_policy)
            schedule.work(3)
            schedule.work(1)
            schedule.finish()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    trainer.env.close()


def test_a_gpu_sees_the_relations_that_a_cpu_sees():
    """Which draws from all cells, where a CPU draws from those that matter."""
    generator = torch.Generator().manual_seed(0)
    frames = torch.randint(256, (N, 5, 84, 84), dtype=torch.uint8, generator=generator)
    frames[:, 4, 30:, 10:] = frames[:, 3, 30:, 10:]  # most of it stands still
    here, there = (ControlModels(LOCAL, (84, 84), 3, device, seed=1) for device in ("cpu", GPU))
    actions = torch.arange(N) % 3
    seen = (frames[:, :4], actions, frames[:, 4])
    with fixed_algorithms():
        expected = here.attend(*seen, None).relation
        found = there.attend(*(part.to(GPU) for part in seen), None).relation
    torch.testing.assert_close(found.cpu(), expected, atol=1e-3, rtol=1e-2)


def test_an_overlapped_run_is_stopped_and_resumed(tmp_path):
    control = replace(CONTROL, execution=ExecutionConfig())
    config = replace(PONG, frames=4 * N * T, warmup_steps=N * T, control=control)
    start(config, tmp_path / "run", minutes=1e-9, tensorboard=False, quiet=True)
    resume(tmp_path / "run", tensorboard=False, quiet=True)
    rows = RunFolder(tmp_path / "run").rows("metrics.jsonl")
    assert [row["frames"] for row in rows] == [N * T * (i + 1) for i in range(4)]
    assert all("rtm/transition_loss" in row for row in rows[1:])
    assert "rtm/transition_loss" not in rows[0]  # one rollout later


@pytest.mark.parametrize("method", ["mega", "extrinsic"])
def test_a_run_that_has_begun_to_learn_goes_on_after_a_stop_as_it_would_have(method, tmp_path):
    """Both optimisers have moments by then, and the graphs of the second process are captured upon them."""
    config = replace(PONG, method=method, reward=None, warmup_steps=2 * N * T)
    with fixed_algorithms():
        whole = Trainer(config, GPU)
        whole.begin()
        for _ in range(5):
            whole.iterate()
        save_checkpoint(tmp_path, whole.frames, tensors_of(whole), state_of(whole))
        after = Trainer(config, GPU)
        _, tensors, state = load_newest(tmp_path, pytest.fail)
        load(after, tensors, state)
        for _ in range(3):
            expected, _ = whole.iterate()
            numbers, _ = after.iterate()
            for name, number in expected.items():
                if not name.startswith("seconds/"):
                    assert numbers[name] == pytest.approx(number, rel=0.05, abs=0.01), name


def breakout(method: str, groups: int, **changes: object) -> TrainConfig:
    pytest.importorskip("ale_py")
    env = AtariConfig(threads=4, max_frames=120, groups=groups)
    return replace(PONG, method=method, game="breakout", env=env, reward=None, frames=10 * 4 * N * T, **changes)


def collected(config: TrainConfig, iterations: int = 2) -> Trainer:
    trainer = Trainer(config, GPU)
    trainer.begin()
    for _ in range(iterations):
        trainer.iterate()
    return trainer


@pytest.mark.parametrize("fast", [True, False])
def test_groups_record_what_one_group_records(fast):
    configs = [breakout("mega", groups) for groups in (1, 2, 4)]
    if not fast:
        configs = [replace(without_fast_paths(c), env=replace(c.env, groups=c.env.groups)) for c in configs]
    one, *others = (collected(config) for config in configs)
    assert one.rollout.first[1:].any()
    for many in others:
        for name in ("all_frames", "flags", "age", "actions"):
            assert torch.equal(getattr(one.rollout, name), getattr(many.rollout, name)), name
        for name in ("direct", "g", "mega_reward"):
            mine, theirs = one.rollout.fields[name], many.rollout.fields[name]
            torch.testing.assert_close(mine, theirs, rtol=1e-2, atol=1e-3)
    for trainer in (one, *others):
        trainer.env.close()


@pytest.mark.parametrize("policy", [PolicyConfig(), PolicyConfig(normalise="pixel", padding="zeros")], ids=str)
@pytest.mark.parametrize("n_groups", [1, 2])
def test_the_captured_graph_acts_on_the_frames_of_its_own_group(n_groups, policy):
    """The probabilities in the rollout are those of the policy on the stacks of the same samples. The statistics of the
    frames, if they count, were unknown when the graph was captured."""
    trainer = collected(breakout("extrinsic", n_groups, control=CONTROL, policy=policy), iterations=1)
    with torch.no_grad():
        trainer.collector.collect(Clock(), random=False)
        logits, values = trainer.agent.evaluate(torch.arange(N * T, device=GPU))
    expected = log_prob_of(logits, trainer.rollout.actions.flatten())
    torch.testing.assert_close(trainer.rollout.log_probs.flatten(), expected, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(trainer.rollout.values[:-1].flatten(0, 1), values, rtol=1e-2, atol=1e-2)
    trainer.env.close()


@pytest.mark.parametrize("method", ["mega", "rnd", "sto", "sto-manager", "div", "extrinsic"])
def test_the_fast_collector_records_what_the_plain_one_does(method):
    """Random actions, full precision: with graphs and pinned memory, and without."""
    fast = replace(PONG, method=method, reward=None)
    plain = replace(fast, ppo=replace(fast.ppo, cuda_graphs=False))
    one, two = collected(fast), collected(plain)
    assert (type(one.collector), type(two.collector)) == (FastCollector, Collector)
    for name in ("all_frames", "flags", "age", "actions", "log_policy"):
        assert torch.equal(getattr(one.rollout, name), getattr(two.rollout, name)), name
    for name, values in one.rollout.fields.items():
        torch.testing.assert_close(values, two.rollout.fields[name], rtol=1e-2, atol=1e-3)


def on_gpu(recorded: Recorded) -> Recorded:
    moved = {name: value.to(GPU) for name, value in vars(recorded).items() if isinstance(value, Tensor)}
    return replace(recorded, **moved, fields={name: value.to(GPU) for name, value in recorded.fields.items()})


@pytest.mark.parametrize("name", SETTINGS)
def test_a_captured_gradient_step_of_a_reward_teaches_what_a_plain_one_does(name):
    """On batches of several sizes, and after a state was loaded."""
    here = replace(world(), device=GPU)
    plain, captured = make(name, here), make(name, replace(here, cuda_graphs=True))
    for seed in (1, 2, 3):
        recorded = on_gpu(rollout((32, 36), seed))
        mine, theirs = plain.update(recorded), captured.update(recorded)
        torch.testing.assert_close(theirs, mine, rtol=1e-2, atol=1e-4)
        for key, tensor in plain.state_dict().items():
            torch.testing.assert_close(captured.state_dict()[key], tensor, rtol=1e-2, atol=1e-3)
        captured.load_state_dict({key: tensor.clone() for key, tensor in plain.state_dict().items()})
    assert captured.learner._captured == {}
