"""Building blocks of rows and columns: what is played, by which method, with which control models."""

from dataclasses import replace
from typing import Any

from megareward.control.config import ControlConfig
from megareward.experiments.plans.experiment import Change
from megareward.ppo.config import PolicyConfig, PPOConfig
from megareward.training.config import TrainConfig
from megareward.training.presets import with_preset


def both(*changes: Change) -> Change:
    def change(config: TrainConfig) -> TrainConfig:
        for one in changes:
            config = one(config)
        return config

    return change


def game(name: str, **extras: Any) -> Change:
    """Play this mini game; `extras` are options of the game, such as noisy_tv."""

    def change(config: TrainConfig) -> TrainConfig:
        config = replace(config, game=name, env=None)  # type: ignore[arg-type]  # None is the game's own default
        return with_preset(replace(config, env=replace(config.env, **extras)), "mini")  # type: ignore[type-var]

    return change


def atari(name: str, presets: str = "many") -> Change:
    """Play this Atari game with many environments; few threads each, since several runs share the cores."""

    def change(config: TrainConfig) -> TrainConfig:
        config = with_preset(replace(config, game=name, env=None), presets)  # type: ignore[arg-type]  # as above
        return replace(config, env=config.env.with_threads(4))

    return change


def long_atari(name: str) -> Change:
    """Twice as many environments, minibatches as large as before, all cores: for a run that has the machine alone."""

    def change(config: TrainConfig) -> TrainConfig:
        config = atari(name)(config)
        ppo = replace(config.ppo, minibatches=16)
        return replace(config, n_envs=256, ppo=ppo, env=config.env.with_threads(0))

    return change


def method(name: str, presets: str = "auto") -> Change:
    """Train with this method; everything else is as in the game's preset, or in `presets`."""

    def change(config: TrainConfig) -> TrainConfig:
        return with_preset(replace(config, method=name, reward=None), presets)

    return change


RANDOM_FRAMES = 500_000


def random_play(config: TrainConfig) -> TrainConfig:
    """Random play on Atari for `RANDOM_FRAMES`, since it learns nothing: by few environments, so that each has the time
    for many games and the last 50 are not the short ones. The same run, whatever it is compared with."""
    config = method("random")(config)
    return replace(config, n_envs=8, rollout_steps=128, ppo=PPOConfig(), env=config.env.with_groups(1))


def control(**changes: Any) -> Change:
    """Mega-reward with other settings of the control models: `rtm=dict(...)` changes fields of `control.rtm`."""

    def change(config: TrainConfig) -> TrainConfig:
        models: ControlConfig = config.control
        for part, values in changes.items():
            new = replace(getattr(models, part), **values) if isinstance(values, dict) else values
            models = replace(models, **{part: new})
        return replace(config, control=models)

    return change


def only_watch(change_models: Change = lambda config: config) -> Change:
    """The control models learn from random play, all from the same games; the policy never learns."""

    def change(config: TrainConfig) -> TrainConfig:
        config = change_models(config)
        control = replace(config.control, background_frames=max(config.control.normalise_frames, config.frames))
        return replace(config, n_envs=64, rollout_steps=32, warmup_steps=config.frames, control=control)

    return change


def models_of(preset: str, ppo: PPOConfig, **changes: Any) -> Change:
    """The control models of a preset, except for `changes`. No policy learns here, so PPO, the scaling of frames and
    the reward have no effect: they stay as in the recorded runs of `maps`."""

    def change(config: TrainConfig) -> TrainConfig:
        config = with_preset(config, preset)
        reward = replace(config.reward, bonus="growth", normalise=True)
        policy = PolicyConfig(trunk=config.policy.trunk)
        return replace(config, ppo=ppo, policy=policy, reward=reward, control=replace(config.control, **changes))

    return change


def nothing_ends(config: TrainConfig) -> TrainConfig:
    return replace(config, episodic=False)


def under_both_rules(names: tuple[str, ...], not_episodic: tuple[str, ...]) -> dict[str, Change]:
    """Rows of methods for which the end of a game ends the return, then of those for which nothing does."""
    rows = {name: method(name) for name in names}
    return rows | {f"{name}, nothing ends": both(method(name), nothing_ends) for name in not_episodic}
