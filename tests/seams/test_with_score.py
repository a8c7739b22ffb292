"""The game's score beside a method's own reward (`--with-score`): which reward reaches which advantage, scaled and
discounted how; and without it, none of the score gets anywhere (`test_flip`)."""

import json
from dataclasses import replace

import pytest
import torch

from megareward.cli import main
from megareward.errors import UsageError
from megareward.reward_stream import RewardStream
from megareward.rewards import METHODS
from megareward.rewards.settings import ScoreConfig
from megareward.rollout import Rollout
from megareward.runs.record import Record
from megareward.training.clock import Clock
from megareward.training.config import TrainConfig, bearing, to_dict
from megareward.training.evaluate import evaluate_run
from megareward.training.loop import Trainer
from megareward.types import Tensor
from tests.seams.small_runs import (
    SCORE_FREE,
    N,
    T,
    assert_same,
    assert_same_tensors,
    run,
    run_with_a_stop,
    small,
    whole,
)
from tests.seams.test_every_method_runs import PoisonedResets
from tests.seams.test_fast_and_plain import fast_collector
from tests.small_envs import FlippedScore

CPU = torch.device("cpu")
INTRINSIC = [name for name in SCORE_FREE if name not in METHODS or METHODS[name].trains_policy]


@pytest.mark.parametrize("method", INTRINSIC)
def test_every_method_gets_the_score_as_one_more_stream_after_its_own(method):
    alone, beside = (Trainer(small(method, with_score=on), CPU) for on in (False, True))
    *own, score = beside.rewards.streams
    assert own == alone.rewards.streams  # weight 1, discount and rule as ever
    assert score == RewardStream("extrinsic", discount=0.999, episodic=True, weight=2.0, normalise=False)
    assert alone.rollout.r_ext is None
    assert beside.rollout.r_ext is not None
    assert beside.rollout.values.shape[-1] == len(own) + 1


@pytest.mark.parametrize("rule", [True, False])
@pytest.mark.parametrize("exception", ["rule", "no"])
def test_the_score_follows_the_rule_for_death_and_the_method_may_be_an_exception_as_in_the_source(rule, exception):
    reward = replace(METHODS["rnd"].config(), episodic=exception)
    trainer = Trainer(small("rnd", with_score=True, episodic=rule, reward=reward), CPU)
    assert [stream.episodic for stream in trainer.rewards.streams] == [rule and exception == "rule", rule]


def a_rollout_with_one_end(config: TrainConfig) -> Trainer:
    """The game of environment 0 ends with frame 7. Nothing is expected of the future, so advantages are rewards."""
    trainer = Trainer(config, CPU)
    trainer.begin()
    trainer.collector.collect(Clock(), random=True)
    rollout = trainer.rollout
    rollout.values.zero_()
    rollout.flags.zero_()
    rollout.terminated[7, 0] = rollout.first[8, 0] = True
    rollout.r_ext[:] = torch.randn(T + 1, N, generator=torch.Generator().manual_seed(1)).round() * 30
    return trainer


def std_of_return(rewards: Tensor, real: Tensor, discount: float) -> float:
    """Of R <- discount * R + r over all transitions."""
    returns = []
    for n in range(N):
        filtered = 0.0
        for t in range(T):
            if real[t, n]:
                filtered = discount * filtered + float(rewards[t, n])
                returns.append(filtered)
    mean = sum(returns) / len(returns)
    return (sum((x - mean) ** 2 for x in returns) / len(returns)) ** 0.5


def discounted_sum(rewards: Tensor, rollout: Rollout, t: int, n: int, decay: float, episodic: bool) -> float:
    """Of the rewards from step t on; an end is an end, or the next game follows at once."""
    total, factor = 0.0, 1.0
    for k in range(t, T):
        if rollout.first[k + 1, n]:
            continue  # the step into a new game is none
        total += factor * float(rewards[k, n])
        factor *= decay
        if episodic and rollout.terminated[k + 1, n]:
            break
    return total


@pytest.mark.parametrize("weights", [(1.0, 2.0), (0.5, 0.0), (0.0, 3.0)])
def test_the_advantage_is_the_weighted_sum_of_both_streams_each_with_its_own_scale_and_discount(weights):
    score = ScoreConfig(intrinsic_weight=weights[0], weight=weights[1])
    trainer = a_rollout_with_one_end(small("frame-change", with_score=True, score=score))
    rollout, recorded = trainer.rollout, trainer.rollout.recorded()
    raw = trainer.rewards.compute(recorded)
    frames = recorded.frames.float()
    change = (frames[1:] - frames[:-1]).abs().mean((2, 3))  # what the method for tests rewards
    scaled = change / std_of_return(change, recorded.real, 0.99)
    signs = rollout.r_ext[1:].sign()
    assert {-1.0, 0.0, 1.0} == set(signs.flatten().tolist())

    samples, _ = trainer.agent.samples(trainer.rewards.scale(raw, recorded))

    for n in range(N):
        for t in range(T):
            own = discounted_sum(scaled, rollout, t, n, 0.99 * 0.95, episodic=False)  # as that method says of itself
            of_score = discounted_sum(signs, rollout, t, n, 0.999 * 0.95, episodic=True)
            if not recorded.real[t, n]:
                own = of_score = 0.0
            i = t * N + n
            assert float(samples.advantages[i]) == pytest.approx(weights[0] * own + weights[1] * of_score, abs=1e-4)
            assert samples.returns[i].tolist() == pytest.approx([own, of_score], abs=1e-4)  # values are not weighted


def test_the_score_can_be_left_raw():
    trainer = a_rollout_with_one_end(small("rnd", with_score=True, score=ScoreConfig(clip="none")))
    recorded = trainer.rollout.recorded()
    _, raw = trainer.rewards.compute(recorded)
    assert torch.equal(raw, torch.where(recorded.real, trainer.rollout.r_ext[1:], 0.0))
    assert raw.abs().max() >= 30


@pytest.mark.parametrize("method", ["rnd", "emp", "frame-change"])
def test_flipping_the_score_is_noticed_now_and_a_reset_still_teaches_nobody(method, tmp_path):
    config = small(method, with_score=True)
    plain, first = whole(config)
    flipped, second = run(config, tmp_path / "flipped", FlippedScore)
    assert first.score > 0
    assert first.actions != second.actions
    assert all(not torch.equal(plain.weights[n], flipped.weights[n]) for n in plain.weights if n.startswith("policy."))
    raw = replace(config, score=ScoreConfig(clip="none"))
    poisoned, _ = run(raw, tmp_path / "poisoned", PoisonedResets)
    assert_same_tensors(whole(raw)[0].weights, poisoned.weights)


@pytest.mark.parametrize("method", ["mega", "emp"])
def test_it_is_stopped_resumed_and_collected_fast_like_the_others(method, tmp_path, monkeypatch):
    config = small(method, with_score=True)
    assert_same(whole(config)[0], run_with_a_stop(config, tmp_path / "stopped", 29, "power cut"))
    monkeypatch.setattr("megareward.training.loop.make_collector", fast_collector)
    assert_same(whole(config)[0], run(config, tmp_path / "fast")[0])


def test_everything_that_shows_a_result_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = "train rnd --with-score --score.weight 3 --reward.episodic no --preset debug --frames 2k --quiet"
    assert main([*words.split(), "--no-tensorboard", "--device", "cpu", "--rollout-steps", "200"]) == 0
    [path] = (tmp_path / "runs").iterdir()
    assert path.name == "mini-pong-rnd+score-s0"
    assert json.loads((path / "config.json").read_text())["config"]["score"]["weight"] == 3
    record = Record.of_run(path)
    assert (record.method, record.label) == ("rnd+score", "rnd+score, not episodic")
    assert evaluate_run(path, 2, device=CPU).scores
    assert main(["results", "add", str(path)]) == 0
    assert main(["results"]) == 0
    assert "rnd+score, not episodic" in capsys.readouterr().out


def test_it_bears_on_what_is_learnt_and_without_it_a_run_is_what_it_was():
    without, beside = (to_dict(small("rnd", with_score=on)) for on in (False, True))
    older = {name: value for name, value in without.items() if name not in ("with_score", "score")}
    assert bearing(older) == bearing(without)
    assert bearing(beside) != bearing(without)


def test_the_screen_shows_the_score_where_it_is_a_reward_and_everything_else_stays():
    without, beside = (small("rnd", with_score=on) for on in (False, True))
    assert (without.hides_score, beside.hides_score) == (True, False)
    assert replace(beside, show_score="no").hides_score
    assert (without.warmup_iterations, without.shows_g) == (beside.warmup_iterations, beside.shows_g)
    assert not any(small(method).uses_score for method in SCORE_FREE)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"method": "extrinsic", "with_score": True}, "'extrinsic' is trained on the score already; leave it out"),
        ({"method": "random", "with_score": True}, "'random' learns nothing; leave it out"),
        ({"method": "rnd", "score": ScoreConfig(weight=3.0)}, "--score.weight is 3.0, .* add --with-score"),
    ],
)
def test_a_score_beside_nothing_is_refused(settings, sentence):
    with pytest.raises(UsageError, match=sentence):
        TrainConfig(**settings)


@pytest.mark.parametrize(("field", "value"), [("weight", -1.0), ("intrinsic_weight", float("nan")), ("discount", 1.5)])
def test_impossible_weights_are_refused_by_their_option(field, value):
    with pytest.raises(UsageError, match=f"--score.{field.replace('_', '-')} is {value}"):
        ScoreConfig(**{field: value})
