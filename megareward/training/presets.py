"""Named changes of a config. Free of torch."""

from dataclasses import replace
from typing import Any

from megareward.control.config import mini as mini_control
from megareward.control.config import paper as literal_control
from megareward.control.config import released as released_control
from megareward.errors import UsageError, suggestion
from megareward.ppo.config import PolicyConfig, PPOConfig
from megareward.rewards.settings import MegaConfig
from megareward.training.config import TrainConfig


def paper(config: TrainConfig) -> TrainConfig:
    """The paper's text, literally: PPO with its published Atari settings, sparsemax, Eq. 10 and 11 as printed."""
    return replace(
        config,
        n_envs=8,
        rollout_steps=128,
        warmup_steps=0,
        ppo=PPOConfig(),
        policy=PolicyConfig(),
        control=literal_control(config.control),
        reward=without_loss_at_the_end(config.reward),
        g_channel="auto",
    )


def released(config: TrainConfig) -> TrainConfig:
    """What the authors' code does, without its hand-made settings per game; the policy sees no g."""
    return replace(
        config,
        n_envs=8,
        rollout_steps=128,
        warmup_steps=614_400,
        ppo=PPOConfig(normalise_advantages="rollout"),
        policy=PolicyConfig(trunk="nature-32"),
        control=released_control(config.control),
        reward=without_loss_at_the_end(config.reward),
        g_channel="no",
    )


def without_loss_at_the_end(reward: Any) -> Any:
    """The loss of all control at an end is ours."""
    return replace(reward, end_takes_all=False) if isinstance(reward, MegaConfig) else reward


def default(config: TrainConfig) -> TrainConfig:
    """The default for Atari: the paper's PPO, with the control models' settings that measured best."""
    return config


def many(config: TrainConfig) -> TrainConfig:
    """Many environments on a GPU: the paper's number of passes over each sample, in minibatches of 512.

    128 x 32 samples per update keep the policy fresh (one update per 4096 decisions); the learning rate grows with
    the square root of the minibatch's size. Emulators work in four groups that take turns.
    """
    ppo = PPOConfig(minibatches=8, learning_rate=3.5e-4, precision="bfloat16", clip_decays=False)
    return replace(config, n_envs=128, rollout_steps=32, ppo=ppo, env=config.env.with_groups(4))


def mini(config: TrainConfig) -> TrainConfig:
    """Small worlds on two cores: 32 environments, small networks, and a learning rate of 1e-3 for all of them."""
    ppo = PPOConfig(minibatches=8, epochs=3, learning_rate=1e-3, clip=0.2, clip_decays=False)
    reward = replace(config.reward, learning_rate=1e-3) if hasattr(config.reward, "learning_rate") else config.reward
    return replace(
        config,
        n_envs=32,
        rollout_steps=64,
        warmup_steps=20_000,
        ppo=ppo,
        control=mini_control(config.control),
        reward=reward,
    )


def debug(config: TrainConfig) -> TrainConfig:
    """Everything tiny: finishes in seconds, learns nothing."""
    return replace(
        config,
        n_envs=3,
        rollout_steps=8,
        warmup_steps=24,
        ppo=PPOConfig(minibatches=2, epochs=1),
        control=replace(mini_control(config.control), batch=8, background_frames=2_000),
        checkpoint_minutes=0.0,
        frames=min(config.frames, 96),
    )


def without_fast_paths(config: TrainConfig) -> TrainConfig:
    """`--plain`: the same run as plainly as it can be computed: float32, kernel by kernel, one thing after another."""
    execution = replace(config.control.execution, bf16="off", dense="off", fused="off", folded="off", graph="off")
    return replace(
        config,
        ppo=replace(config.ppo, precision="float32", cuda_graphs=False),
        control=replace(config.control, overlap="off", execution=execution),
        env=config.env.with_groups(1),
    )


PRESETS = {"default": default, "paper": paper, "released": released, "many": many, "mini": mini, "debug": debug}


def with_preset(config: TrainConfig, preset: str) -> TrainConfig:
    """Apply a named preset; `auto` is `mini` for mini games and `default` for Atari."""
    if preset == "auto":
        preset = config.game_row.preset
    if preset not in PRESETS:
        known = ", ".join(["auto", *PRESETS])
        raise UsageError(f"There is no preset '{preset}'.{suggestion(preset, PRESETS)} Presets: {known}.")
    return PRESETS[preset](config)
