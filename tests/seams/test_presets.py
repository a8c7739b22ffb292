"""Every preset trains, is saved and resumes; the policy sees frames as it did, and never the score."""

from dataclasses import replace

import pytest
import torch

from megareward.control.config import ControlConfig, mini, paper, released
from megareward.ppo.config import PolicyConfig
from megareward.training.config import TrainConfig
from megareward.training.evaluate import Player
from megareward.training.presets import with_preset
from megareward.training.run import resume
from tests.seams.small_runs import QUIET, N, Outcome, T, assert_same, run_with_a_stop, small, whole
from tests.seams.test_flip import assert_nothing_but_the_score_changed

SCALED = PolicyConfig(normalise="pixel", normalise_frames=2 * N * T + 5, padding="zeros")
"""Complete in the third rollout of four, after PPO's first update."""


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
    config = small("mega", control=shrunk(preset(ControlConfig())))
    stopped = run_with_a_stop(config, tmp_path / "stopped", 2 * T + 5, "power cut")
    assert_same(whole(config)[0], stopped)
    resume(tmp_path / "stopped", **QUIET)
    assert_same(stopped, Outcome.of(tmp_path / "stopped"))


def shrunk(control: ControlConfig) -> ControlConfig:
    return replace(
        control,
        adm=replace(control.adm, features=32),
        rtm=replace(control.rtm, channels=4, features=16, gamma_features=8),
        batch=8,
        normalise_frames=40,
        background_frames=40,
    )


def literal(preset: str) -> TrainConfig:
    """All of a preset that is no size."""
    sizes, full = small("mega"), with_preset(small("mega"), preset)
    ppo = replace(full.ppo, minibatches=2, learning_rate=1e-2)
    policy = replace(full.policy, trunk="small", normalise_frames=SCALED.normalise_frames)
    sizes = replace(sizes, ppo=ppo, policy=policy, control=shrunk(full.control), g_channel=full.g_channel)
    return replace(sizes, reward=full.reward)


@pytest.mark.parametrize("preset", ["paper", "released"])
def test_under_a_literal_preset_a_run_resumes_exactly(preset, tmp_path):
    config = literal(preset)
    for step in (T + 5, 3 * T + 1):  # before the statistics are complete, and after
        assert_same(whole(config)[0], run_with_a_stop(config, tmp_path / f"stopped {step}", step, "power cut"))


@pytest.mark.parametrize("preset", ["paper", "released"])
def test_under_a_literal_preset_flipping_the_score_changes_nothing(preset, tmp_path):
    assert_nothing_but_the_score_changed(literal(preset), tmp_path)


@pytest.mark.parametrize("method", ["extrinsic", "rnd"])
def test_any_method_can_scale_frames_by_their_statistics_and_resume(method, tmp_path):
    config = small(method, policy=SCALED, g_channel="no")
    stopped = run_with_a_stop(config, tmp_path / "stopped", T + 5, "power cut")
    assert_same(whole(config)[0], stopped)
    assert int(stopped.tensors["policy.normaliser.n_seen"]) == SCALED.normalise_frames
    plain, _ = whole(replace(config, policy=PolicyConfig()))
    assert plain.metrics[-1] != stopped.metrics[-1]


def test_who_plays_later_sees_frames_as_the_agent_did():
    config = small("extrinsic", policy=SCALED, g_channel="no")
    learnt = whole(config)[0].tensors
    player = Player(config, learnt, 2, seed=3, device=torch.device("cpu"))
    try:
        player.begin()
        player.step()
    finally:
        player.env.close()
    agent = player.collector.agent
    assert torch.equal(agent.policy.normaliser.mean, learnt["policy.normaliser.pixel_mean"])
    assert torch.equal(agent.policy.normaliser.std, learnt["policy.normaliser.std"])
    assert agent.inputs.padding == "zeros"
