"""Runs behind a noisy screen are runs like any other: flipped, stopped, resumed, collected fast, played and audited."""

from dataclasses import replace

import pytest
import torch

from megareward.audit.learnt import as_seen
from megareward.audit.record import Plan, find_truth
from megareward.audit.run_audit import audit_run
from megareward.cli import main
from megareward.control.config import OracleConfig
from megareward.envs.atari_config import AtariConfig
from megareward.envs.noise_config import NoiseConfig
from megareward.errors import UsageError
from megareward.runs.logs import method_and_rule
from megareward.runs.record import Record
from megareward.training.clock import Clock
from megareward.training.config import bearing, to_dict
from megareward.training.evaluate import Player, evaluate_run
from megareward.training.loop import Trainer
from tests.seams.small_runs import TINY_CONTROL, assert_same, run, run_with_a_stop, small, whole
from tests.seams.test_fast_and_plain import breakout, fast_collector
from tests.seams.test_flip import assert_nothing_but_the_score_changed

CPU = torch.device("cpu")
BOTH = NoiseConfig(std=0.3, tv="action")


@pytest.mark.parametrize("method", ["mega", "g-rnd"])
def test_it_is_flipped_stopped_resumed_and_collected_fast_like_the_others(method, tmp_path, monkeypatch):
    config = small(method, noise=BOTH)
    assert_nothing_but_the_score_changed(config, tmp_path)
    assert_same(whole(config)[0], run_with_a_stop(config, tmp_path / "stopped", 29, "power cut"))
    monkeypatch.setattr("megareward.training.loop.make_collector", fast_collector)
    assert_same(whole(config)[0], run(config, tmp_path / "fast")[0])


def test_groups_of_atari_leave_no_trace_in_the_noise():
    frames = []
    for groups in (1, 2):
        trainer = Trainer(replace(breakout("extrinsic", groups), noise=NoiseConfig(std=0.3)), CPU)
        trainer.begin()
        trainer.collector.collect(Clock(), random=True)
        frames.append(trainer.rollout.all_frames.clone())
        trainer.env.close()
    assert torch.equal(*frames)


def test_the_policy_has_the_action_of_the_screen_and_can_be_evaluated(tmp_path):
    run(small("rnd", noise=BOTH, g_channel="no"), tmp_path / "run")
    assert Trainer(small("rnd", noise=BOTH), CPU).agent.policy.action_head.out_features == 4
    assert len(evaluate_run(tmp_path / "run", 3, device=CPU).scores) == 3


def test_an_oracle_sees_the_game_behind_the_noise():
    maps = []
    for noise in (NoiseConfig(), NoiseConfig(std=0.3)):
        control = replace(TINY_CONTROL, oracle=OracleConfig(lags=4))
        trainer = Trainer(small("mega", control=control, noise=noise, g_channel="no"), CPU)
        trainer.begin()
        trainer.collector.collect(Clock(), random=True)
        maps.append(trainer.rollout.fields["g"].clone())
    assert maps[0].any()
    assert torch.equal(*maps)


def test_an_audit_asks_the_game_for_the_truth_and_the_models_through_the_noise(tmp_path):
    config = small("mega", noise=NoiseConfig(std=0.3))
    run(config, tmp_path / "run")
    options = {"lags": 3, "frames": 20, "episodes": 2, "cache": tmp_path / "truth", "device": CPU}
    record = audit_run(tmp_path / "run", **options)
    clean, _ = find_truth(replace(config, noise=NoiseConfig()), Plan("random", 2, 20, 3), tmp_path / "truth")
    assert len(list((tmp_path / "truth").iterdir())) == 1  # noise asks for no other truth
    assert record["scores"]["direct_auroc"]["mean"] is not None
    seen = as_seen(clean, config.noise)
    player = Player(config, None, 2, Plan().seed, CPU)
    assert torch.equal(player.begin().frames[1], seen.episodes[1].frames[0])
    assert torch.equal(player.step().frames[1], seen.episodes[1].frames[1])
    audit_run(tmp_path / "run", policy="trained", **options)
    run(small("mega", noise=BOTH), tmp_path / "tv")
    with pytest.raises(UsageError, match="switches a screen on, which no game can branch"):
        audit_run(tmp_path / "tv", **options)


def test_an_audit_of_atari_replays_the_game_behind_the_noise(tmp_path):
    env = AtariConfig(threads=1)
    config = small("mega", game="breakout", env=env, noise=NoiseConfig(std=0.3), frames=4 * 36)
    run(config, tmp_path / "run")
    audit_run(tmp_path / "run", policy="trained", lags=2, frames=6, episodes=1, processes=1, device=CPU)


def test_results_say_how_strong_the_noise_was_and_runs_without_are_what_they_were(tmp_path):
    run(small("rnd", noise=BOTH), tmp_path / "run")
    assert Record.of_run(tmp_path / "run").label == "rnd, noise 0.3, tv action"
    without = to_dict(small("rnd"))
    older = {name: value for name, value in without.items() if name != "noise"}
    assert bearing(older) == bearing(without) != bearing(to_dict(small("rnd", noise=BOTH)))
    assert method_and_rule(older) == method_and_rule(without) == "rnd"


def test_the_command_line_knows_it(tmp_path):
    words = "train rnd --noise.std 0.3 --preset debug --quiet --no-tensorboard --device cpu --out"
    assert main([*words.split(), str(tmp_path / "run")]) == 0
