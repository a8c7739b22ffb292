"""Named changes of a config. Free of torch."""

from dataclasses import replace
from typing import Any

from megareward.control.config import mini as mini_control
from megareward.control.config import moved as moved_control
from megareward.control.config import paper as literal_control
from megareward.control.config import released as released_control
from megareward.control.config import things as things_control
from megareward.errors import UsageError, suggestion
from megareward.ppo.config import PolicyConfig, PPOConfig
from megareward.rewards.settings import ScoreConfig, preset_settings
from megareward.training.config import TrainConfig

NO_LIMIT = 1e9
"""Limit of the gradient norm that never clips."""
MANY_TRANSITIONS = 256
"""Smallest batch of the control models, in transitions, with many environments."""


def paper(config: TrainConfig) -> TrainConfig:
    """The paper's text, literally: PPO as it was published, sparsemax, Eq. 10 and 11 as printed.

    Advantages are normalised over the rollout: the PPO paper's code does that, its text has no word of it.
    """
    return replace(
        config,
        n_envs=8,
        rollout_steps=128,
        warmup_steps=0,
        ppo=PPOConfig(epochs=3, value_weight=2.0, clip_value=False, clip_decays=True, normalise_advantages="rollout"),
        policy=PolicyConfig(),
        control=literal_control(config.control),
        reward=with_settings_of("paper", config.reward),
        g_channel="auto",
    )


def released(config: TrainConfig) -> TrainConfig:
    """What the authors' code does, without its hand-tuned settings per game; the policy does not see g."""
    return replace(
        config,
        n_envs=8,
        rollout_steps=128,
        warmup_steps=614_400,
        ppo=PPOConfig(clip_decays=True, normalise_advantages="rollout"),
        policy=PolicyConfig(trunk="nature-32", padding="zeros", normalise="pixel"),
        control=released_control(config.control),
        reward=with_settings_of("released", config.reward),
        g_channel="no",
    )


def with_settings_of(preset: str, reward: Any) -> Any:
    return replace(reward, **preset_settings(type(reward), preset))


def default(config: TrainConfig) -> TrainConfig:
    """The default for Atari: the paper's sizes of PPO, with the control models' settings that measured best."""
    return config


def moved(config: TrainConfig) -> TrainConfig:
    """Not the paper's reward: at every step, mega-reward is the control of what moves and is not the agent's body.
    Nothing is subtracted at an end, since nothing was given in advance. Other settings stay as they are."""
    reward = config.reward
    if "end_takes_all" in vars(reward):
        reward = replace(reward, end_takes_all=False)
    return replace(config, control=moved_control(config.control), reward=reward)


def things(config: TrainConfig) -> TrainConfig:
    """The reward of `moved` with things in place of cells: a thing keeps its control wherever it goes, and a thing near
    it gains control only by being moved."""
    config = moved(config)
    return replace(config, control=things_control(config.control))


def many(config: TrainConfig) -> TrainConfig:
    """Many environments on a GPU, on top of other presets: as many passes over each sample, in larger batches.

    128 x 32 samples per update keep the policy fresh (one update per 4096 decisions), and minibatches of 512 are twice
    the published ones; control models that learn from fewer than 256 transitions at a time learn from 256. Learning
    rates grow with the square root of a batch's size. Emulators work in four groups that take turns.
    """
    ppo = replace(config.ppo, minibatches=8, learning_rate=config.ppo.learning_rate * 1.4, precision="bfloat16")
    models = replace(config.control, overlap="auto")
    if models.batch < MANY_TRANSITIONS:
        rate = models.learning_rate * (MANY_TRANSITIONS / models.batch) ** 0.5
        models = replace(models, batch=MANY_TRANSITIONS, learning_rate=rate)
    return replace(config, n_envs=128, rollout_steps=32, ppo=ppo, control=models, env=config.env.with_groups(4))


def mini(config: TrainConfig) -> TrainConfig:
    """Small worlds on two cores: 32 environments, small networks, and a learning rate of 1e-3 for all of them."""
    return replace(
        config,
        n_envs=32,
        rollout_steps=64,
        warmup_steps=20_000,
        ppo=PPOConfig(minibatches=8, epochs=3, learning_rate=1e-3, clip=0.2),
        control=mini_control(config.control),
        reward=with_settings_of("mini", config.reward),
    )


def rnd_paper(config: TrainConfig) -> TrainConfig:
    """RND's own setting for hard exploration (Burda et al. 2018b): score and novelty as two streams, where returns of
    novelty continue beyond the end of a game; sticky actions, games of at most 4500 decisions, a lost life is no end;
    PPO without decay, gradient clipping or normalised advantages. For every method that can be trained beside the
    score.
    """
    reward, env = config.reward, config.env
    if "episodic" in vars(reward):
        reward = replace(reward, episodic="no")
    limits = {"max_frames": 4500 * env.frame_skip, "max_steps": 4500, "life_loss_is_terminal": False, "sticky": 0.25}
    own = limits | {"noop_max": 0, "fire_reset": False}
    return replace(
        config,
        n_envs=128,
        rollout_steps=128,
        warmup_steps=128 * 128,
        with_score=config.plays_by_itself,
        score=ScoreConfig(),
        ppo=replace(
            config.ppo,
            epochs=4,
            minibatches=4,
            learning_rate=1e-4,
            learning_rate_decays=False,
            adam_eps=1e-8,
            clip=0.1,
            clip_decays=False,
            entropy_weight=0.001,
            value_weight=1.0,
            clip_value=False,
            max_grad_norm=NO_LIMIT,
            normalise_advantages="never",
        ),
        reward=reward,
        env=replace(env, **{name: value for name, value in own.items() if name in vars(env)}),  # type: ignore[type-var]
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


def with_short_warmup(config: TrainConfig) -> TrainConfig:
    """The warm-up takes at most a quarter of the decisions, so that a short run trains, too.

    The usual warm-ups are shorter than that from 9.9M frames of Atari on, and from 80k frames of a mini game on.
    """
    decisions = -(-config.frames // config.env.frame_skip)
    return replace(config, warmup_steps=min(config.warmup_steps, -(-decisions // 4)))


def refuse_only_warmup(config: TrainConfig) -> None:
    """Refuse a run that would end before its policy learns anything."""
    if not config.plays_by_itself or config.warmup_iterations < config.iterations:
        return
    per, least = config.frames_per_iteration, config.frames_per_iteration * (config.warmup_iterations + 1)
    raise UsageError(
        f"--frames is {config.frames}, but the warm-up of random play is {config.warmup_iterations} rollouts of {per} "
        f"frames, so the policy would never learn; use --frames {least} or more, or --warmup-steps 0."
    )


def without_fast_paths(config: TrainConfig) -> TrainConfig:
    """`--plain`: the same run computed plainly: float32, no CUDA graphs or fused kernels, no overlap, one group."""
    execution = replace(config.control.execution, bf16="off", dense="off", fused="off", folded="off", graph="off")
    return replace(
        config,
        ppo=replace(config.ppo, precision="float32", cuda_graphs=False),
        control=replace(config.control, overlap="off", execution=execution),
        env=config.env.with_groups(1),
    )


PRESETS = {
    "default": default,
    "paper": paper,
    "released": released,
    "rnd-paper": rnd_paper,
    "moved": moved,
    "things": things,
    "many": many,
    "mini": mini,
    "debug": debug,
}


def with_preset(config: TrainConfig, names: str) -> TrainConfig:
    """Apply presets, separated by commas, one after the other; `auto` is `mini` for mini games, `default` for Atari."""
    for name in names.split(","):
        preset = config.game_row.preset if name.strip() == "auto" else name.strip()
        if preset not in PRESETS:
            known = ", ".join(["auto", *PRESETS])
            raise UsageError(f"There is no preset '{preset}'.{suggestion(preset, PRESETS)} Presets: {known}.")
        config = PRESETS[preset](config)
    return config
