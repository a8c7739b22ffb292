"""What a run says before anything is built."""

import pytest

from megareward.training.banner import banner, frames_per_second
from megareward.training.config import TrainConfig
from megareward.training.presets import with_preset, with_short_warmup


def test_it_tells_what_is_trained_where_and_about_how_long():
    config = with_short_warmup(TrainConfig(method="mega", game="breakout", seed=3))
    first, second = banner(config, "cpu").splitlines()
    assert first.startswith("mega on breakout, score hidden: 200k frames on cpu, 8 environments, seed 3; roughly 2m")
    assert second == "The first 53.2k frames are the warm-up: random play, from which only models learn."


def test_a_method_without_warmup_has_no_word_of_it():
    text = banner(TrainConfig(method="extrinsic", game="mini-pong"), "cuda:0")
    assert "on the score" in text
    assert "on cuda," in text
    assert "\n" not in text


@pytest.mark.parametrize(("n_envs", "measured"), [(8, 7_713), (32, 21_092), (128, 44_982), (256, 54_697)])
def test_the_guess_for_a_gpu_is_near_what_was_measured(n_envs, measured):
    """docs/performance.md, what growth costs."""
    config = with_preset(TrainConfig(method="mega", game="breakout"), "many")
    config = TrainConfig(method="mega", game="breakout", n_envs=n_envs, ppo=config.ppo, rollout_steps=32)
    assert frames_per_second(config, "cuda") == pytest.approx(measured, rel=0.15)
