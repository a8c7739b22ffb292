from dataclasses import replace

import pytest

from megareward.control.config import AdmConfig, ControlConfig, LatentConfig, RtmConfig, paper, released
from megareward.errors import UsageError
from megareward.ppo.config import PPOConfig
from megareward.rewards.settings import RndConfig


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: ControlConfig(batch=1), "batch is 1; BatchNorm needs"),
        (lambda: ControlConfig(fraction=0.0), r"fraction is 0\.0; use a share"),
        (lambda: ControlConfig(H=0), "The grid is 0x4"),
        (lambda: RtmConfig(anchor=-1.0), r"rtm\.anchor is -1\.0"),
        (lambda: AdmConfig(entropy_loss=-0.1), r"adm\.entropy_loss is -0\.1"),
        (lambda: LatentConfig(rho=1.0), r"latent\.rho is 1\.0; use a discount"),
    ],
)
def test_an_impossible_setting_is_refused_with_its_value_and_a_remedy(build, words):
    with pytest.raises(UsageError, match=words):
        build()


def test_the_papers_preset_is_its_text():
    config = paper(ControlConfig())
    assert (config.H, config.W, config.latent.rho) == (4, 4, 0.99)
    assert config.adm.attention == config.rtm.attention == "sparsemax"
    assert (config.rtm.channels, config.rtm.features, config.rtm.gamma_features) == (16, 1024, 512)
    off = {"combine": "sum", "hold": False, "clip": False, "above_chance": False, "background": 1.0, "flash": 1.0}
    assert config.latent == LatentConfig(rho=0.99, reward="difference", **off)
    assert config.rtm.anchor == 0


def test_presets_leave_alone_what_they_do_not_speak_of():
    config = replace(ControlConfig(), normalise_frames=77)
    assert paper(config).normalise_frames == released(config).normalise_frames == 77


@pytest.mark.parametrize("rate", [-1e-3, 1e38, float("inf"), float("nan")])
def test_a_learning_rate_that_can_only_end_badly_is_refused(rate):
    for build in (
        lambda: PPOConfig(learning_rate=rate),
        lambda: ControlConfig(learning_rate=rate),
        lambda: RndConfig(learning_rate=rate),
    ):
        with pytest.raises(UsageError, match="rate"):
            build()
