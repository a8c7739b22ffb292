"""A TV that nobody controls pays rnd; rnd behind the true mask of control it does not pay, not even in the last bit."""

from dataclasses import replace

import pytest
import torch

from megareward.control.config import OracleConfig
from megareward.envs.noise_config import NoiseConfig
from megareward.training.loop import Trainer
from megareward.training.presets import with_preset
from tests.seams.small_runs import TINY_CONTROL, N, T, small

CPU = torch.device("cpu")


def paid(method: str, noise: NoiseConfig, monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """The raw rewards of four rollouts of random play; the reward learns after each of them."""
    control = replace(TINY_CONTROL, oracle=OracleConfig(lags=8))
    config = small(method, control=control, noise=noise, g_channel="no", warmup_steps=4 * N * T)
    trainer = Trainer(config, CPU)
    seen, compute = [], trainer.rewards.compute
    monkeypatch.setattr(trainer.rewards, "compute", lambda recorded: seen.append(compute(recorded)[0]) or [seen[-1]])
    trainer.begin()
    for _ in range(4):
        trainer.iterate()
    assert sum(float(rewards.sum()) for rewards in seen) > 0
    return seen


@pytest.mark.parametrize(("method", "notices"), [("rnd", True), ("g-rnd", False), ("a-rnd", False)])
def test_a_tv_outside_of_the_mask_pays_nothing_bit_for_bit(method, notices, monkeypatch):
    quiet = paid(method, NoiseConfig(), monkeypatch)
    beside_a_tv = paid(method, NoiseConfig(tv="always"), monkeypatch)
    same = all(torch.equal(one, two) for one, two in zip(quiet, beside_a_tv, strict=True))
    assert same != notices


def test_the_preset_of_rnds_paper_has_two_streams_and_no_end_of_novelty():
    config = with_preset(replace(small("g-rnd"), game="montezuma_revenge", env=None), "rnd-paper")
    assert (config.env.sticky, config.env.max_frames, config.env.life_loss_is_terminal) == (0.25, 18_000, False)
    config = with_preset(small("rnd", env=None), "rnd-paper")
    assert config.env.max_steps == 4500
    trainer = Trainer(replace(config, n_envs=N, rollout_steps=T, ppo=replace(config.ppo, minibatches=2)), CPU)
    [novelty, score] = trainer.rewards.streams
    assert (novelty.episodic, novelty.discount, novelty.weight) == (False, 0.99, 1.0)
    assert (score.episodic, score.discount, score.weight) == (True, 0.999, 2.0)
    assert trainer.agent.ppo.config.normalise_advantages == "never"


def test_the_preset_keeps_what_is_only_fast_and_leaves_methods_on_the_score_alone():
    config = with_preset(replace(small("extrinsic"), game="breakout", env=None), "many,rnd-paper")
    assert (config.ppo.precision, config.env.groups, config.n_envs) == ("bfloat16", 4, 128)
    assert not config.with_score
