"""Every preset of the control models trains, is saved, and resumes."""

from dataclasses import replace

import pytest

from megareward.control.config import ControlConfig, mini, paper, released
from megareward.training.run import resume
from tests.seams.small_runs import QUIET, Outcome, T, assert_same, run_with_a_stop, small, whole


def local(config: ControlConfig) -> ControlConfig:
    """Relations by sight, and the reward that is on trial with them."""
    config = mini(config)
    return replace(
        config,
        rtm=replace(config.rtm, model="local", local_features=3),
        latent=replace(config.latent, reward="moved"),
    )


@pytest.mark.parametrize("preset", [mini, paper, released, local])
def test_mega_reward_under_every_preset_resumes_exactly(preset, tmp_path):
    shrunk = mini(ControlConfig())
    control = preset(ControlConfig())
    control = replace(
        control,
        adm=replace(control.adm, features=shrunk.adm.features),
        rtm=replace(control.rtm, channels=4, features=16, gamma_features=8),
        batch=8,
        normalise_frames=40,
    )
    config = small("mega", control=control)
    stopped = run_with_a_stop(config, tmp_path / "stopped", 2 * T + 5, "power cut")
    assert_same(whole(config)[0], stopped)
    resume(tmp_path / "stopped", **QUIET)
    assert_same(stopped, Outcome.of(tmp_path / "stopped"))
