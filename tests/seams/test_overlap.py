"""Learning beside the games: the order of weights is exact, nothing is lost when a run stops, and no score leaks in."""

from dataclasses import replace

import pytest
import torch

from megareward.control.learning.schedule import Schedule
from megareward.control.models import ControlModels
from megareward.runs.checkpoint import list_checkpoints, read_checkpoint
from megareward.training.config import TrainConfig, create_run
from megareward.training.finite import NotFiniteError
from megareward.training.loop import Trainer
from megareward.training.run import resume, start
from megareward.training.saving import restore, tensors_of
from megareward.types import Tensor
from tests.seams.small_runs import (
    ITERATIONS,
    QUIET,
    TINY_CONTROL,
    N,
    Outcome,
    PowerCutError,
    T,
    Watched,
    assert_same,
    assert_same_tensors,
    env_of,
    run,
    run_with_a_stop,
    small,
    stop_at,
    whole,
)
from tests.seams.test_flip import assert_nothing_but_the_score_changed

CPU = torch.device("cpu")
SEVERAL_STEPS = replace(TINY_CONTROL, batch=8, passes=2)
"""Gradient steps in many of the gaps between the frames, not just in one."""


def overlapped(method: str = "mega", **control: object) -> TrainConfig:
    return small(method, control=replace(SEVERAL_STEPS, overlap="on", **control))


def weights(models: ControlModels) -> dict[str, Tensor]:
    scale = {"mean": models.normaliser.mean, "std": models.normaliser.std}
    return {name: tensor.clone() for name, tensor in {**models.modules.state_dict(), **scale}.items()}


def test_the_maps_of_a_rollout_are_made_by_models_that_learnt_from_all_rollouts_but_the_newest():
    """Random actions throughout, so that both runs see the same frames, whatever their maps say."""
    plain, beside = (
        Trainer(small("mega", control=replace(SEVERAL_STEPS, overlap=overlap), warmup_steps=10**6), CPU)
        for overlap in ("off", "on")
    )
    plain.begin()
    beside.begin()
    learnt = [weights(learner_of(plain))]  # after 0, 1, 2, ... rollouts
    for k in range(4):
        lagged = weights(beside.observers["control"].models)
        assert_same_tensors(lagged, learnt[max(k - 1, 0)])
        plain.iterate()
        beside.iterate()
        assert torch.equal(plain.rollout.all_frames, beside.rollout.all_frames)
        learnt.append(weights(learner_of(plain)))
        assert any(not torch.equal(learnt[-1][name], learnt[-2][name]) for name in lagged)
    beside.finish()
    assert_same_tensors(weights(learner_of(beside)), learnt[4])


def schedule_of(trainer: Trainer) -> Schedule:
    return trainer.observers["control"].schedule


def learner_of(trainer: Trainer) -> ControlModels:
    """The models that learn; with overlap those that judge are a lagged copy of them."""
    return schedule_of(trainer).learner.models


def on_cores(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setattr("megareward.control.learning.schedule.os.cpu_count", lambda: n)


def test_a_thread_of_its_own_learns_the_same_as_the_gaps_between_the_frames(monkeypatch):
    results = []
    for n in (1, 2):
        on_cores(monkeypatch, n)
        trainer = Trainer(overlapped(), CPU)
        assert trainer.observers["control"].threaded == (n == 2)
        trainer.begin()
        for _ in range(ITERATIONS):
            trainer.iterate()
        trainer.finish()
        g, actions = trainer.rollout.fields["g"], trainer.rollout.actions
        results.append(weights(learner_of(trainer)) | {"g": g, "actions": actions})
    assert_same_tensors(*results)


def test_what_goes_wrong_in_the_thread_is_not_lost(monkeypatch):
    on_cores(monkeypatch, 2)
    trainer = Trainer(overlapped(), CPU)
    trainer.begin()

    def breaks(batch: object) -> None:
        raise ValueError("a broken update")

    schedule_of(trainer).learner.train_step = breaks
    trainer.iterate()
    with pytest.raises(ValueError, match="a broken update"):
        trainer.iterate()


def test_on_one_core_the_models_learn_in_the_gaps_between_the_frames(monkeypatch):
    on_cores(monkeypatch, 1)
    trainer: Trainer
    seen: list[int] = []

    class Spy(Watched):
        def recv(self):
            pending = schedule_of(trainer)._pending
            seen.append(len(pending.left) if pending else -1)
            return super().recv()

    config = overlapped()
    trainer = Trainer(config, CPU, Spy(env_of(config)))
    trainer.begin()
    for _ in range(2):
        trainer.iterate()
    assert seen[:T] == [-1] * T  # nothing to learn from yet
    assert seen[T:] == sorted(seen[T:], reverse=True)
    assert seen[T] > seen[T + 1] > seen[-1] == 0


def test_the_numbers_of_a_rollout_are_reported_one_rollout_later():
    on, off = (
        whole(small("mega", control=replace(SEVERAL_STEPS, overlap=overlap), warmup_steps=10**6))[0].metrics
        for overlap in ("on", "off")
    )
    losses = [name for name in off[0] if name.startswith(("adm/", "rtm/", "control/transitions"))]
    assert len(losses) > 5
    assert not set(losses) & set(on[0])
    for later, now in zip(on[1:], off[:-1], strict=True):
        assert {name: later[name] for name in losses} == {name: now[name] for name in losses}


def test_the_same_seed_gives_the_same_run(tmp_path):
    one, first = whole(overlapped())
    two, second = run(overlapped(), tmp_path / "two")
    assert_same(one, two)
    assert first.actions == second.actions


def test_an_overlapped_run_is_not_the_same_as_one_without():
    one, other = (whole(config)[0].tensors for config in (overlapped(), small("mega", control=SEVERAL_STEPS)))
    assert not torch.equal(one["rollout.fields.g"], other["rollout.fields.g"])


@pytest.mark.parametrize("method", ["mega", "dir"])
def test_a_run_cut_off_in_every_iteration_and_stopped_after_every_one_ends_as_if_it_had_not_been(method, tmp_path):
    config, path = overlapped(method), tmp_path / "run"
    create_run(path, config, {})
    for iteration in range(ITERATIONS):
        power_cut = stop_at(3 * iteration, "power cut")
        with pytest.raises(PowerCutError):
            resume(path, env=Watched(env_of(config), power_cut), **QUIET)
        resume(path, minutes=1e-9, **QUIET)
    assert_same(whole(config)[0], Outcome.of(path))


@pytest.mark.parametrize("iteration", range(ITERATIONS))
def test_saving_early_or_late_makes_no_difference(iteration, tmp_path):
    """A checkpoint finishes the update that is under way; without one, it is spread over the next rollout."""
    seldom = replace(overlapped(), checkpoint_minutes=60.0)
    stopped = run_with_a_stop(seldom, tmp_path / "stopped", iteration * T + 5, "Ctrl-C")
    assert_same(whole(overlapped())[0], stopped)


def test_flipping_the_games_score_changes_nothing_the_agent_learns_or_does(tmp_path):
    assert_nothing_but_the_score_changed(overlapped(), tmp_path)


@pytest.mark.parametrize(("before", "after"), [("off", "on"), ("on", "off")])
def test_a_run_may_change_its_mind(before, after, tmp_path):
    """As when it moves between a GPU and a CPU with overlap `auto`: it goes on from what the models have learnt."""
    config = small("mega", control=replace(SEVERAL_STEPS, overlap=before))
    start(config, tmp_path / "run", minutes=1e-9, **QUIET)
    saved = Outcome.of(tmp_path / "run").tensors
    trainer = Trainer(small("mega", control=replace(SEVERAL_STEPS, overlap=after)), CPU)
    newest = list_checkpoints(tmp_path / "run" / "checkpoints")[-1]
    restore(trainer, newest, *read_checkpoint(newest))
    modules = {name: saved[f"observer.control.modules.{name}"] for name in learner_of(trainer).modules.state_dict()}
    assert_same_tensors(dict(learner_of(trainer).modules.state_dict()), modules)
    if before == "off":
        assert_same_tensors(dict(trainer.observers["control"].models.modules.state_dict()), modules)
    trainer.iterate()


def test_what_an_update_breaks_is_noticed_before_it_is_saved(monkeypatch):
    trainer = Trainer(overlapped(), CPU)
    trainer.begin()
    learner = schedule_of(trainer).learner
    sound = learner.train_step

    def breaks(batch):  # in the thread that learns: no step of it is under way
        with torch.no_grad():
            next(learner.models.rtm.parameters()).fill_(float("nan"))
        return sound(batch)

    monkeypatch.setattr(learner, "train_step", breaks)
    trainer.iterate()
    with pytest.raises(NotFiniteError, match="rtm/"):
        tensors_of(trainer)


def test_n_envs_times_rollout_transitions_are_learnt_from_per_rollout():
    rows = whole(overlapped(replay=1, passes=1))[0].metrics
    used = [row["control/transitions"] for row in rows[1:]]
    assert all(N * T - 3 * N - 8 < number <= N * T for number in used)  # less resets and a remainder
