"""What a run is made of. A run is a pure function of this and of nothing else. Free of torch."""

import dataclasses
import typing
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from megareward.control.config import ControlConfig
from megareward.control.config import mini as mini_control
from megareward.control.config import paper as literal_control
from megareward.control.config import released as released_control
from megareward.envs.atari_config import AtariConfig
from megareward.envs.games import resolve_game
from megareward.envs.mini import MINI_CONFIGS, MiniConfig
from megareward.errors import UsageError, suggestion
from megareward.ppo.config import PolicyConfig, PPOConfig
from megareward.rewards import Method, find_method
from megareward.rewards.settings import MegaConfig

CONFIG_VERSION = 1
"""Rises when a config file of an older version can no longer be read."""

NO_BEARING = ("device", "checkpoint_minutes", "env.threads")
"""Settings that change no number: where a run trains, how often it saves, how many threads emulate."""


@dataclass(frozen=True)
class TrainConfig:
    """One training run."""

    method: str
    """Which reward teaches the agent; `megareward methods` lists them."""
    game: str = "mini-pong"
    """`megareward games` lists them; any common spelling will do."""
    frames: int = 200_000
    """Emulator frames to train for. Atari: 4 per agent step, so 80M frames are 20M decisions. Mini games: 1."""
    seed: int = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the networks live; auto takes a GPU if there is one."""
    show_score: Literal["auto", "yes", "no"] = "auto"
    """Whether the screen's score stays visible. auto: only for a method that is trained on it anyway."""
    checkpoint_minutes: float = 2.0
    """Time between checkpoints; 0 saves after every update."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    g_channel: Literal["auto", "yes", "no"] = "no"
    """[D23] Whether the policy sees g as an extra channel. auto: with every method that does not use the score, as in
    the paper."""
    control: ControlConfig = field(default_factory=ControlConfig)
    reward: Any = None
    """Settings of the method; its defaults if None."""
    env: AtariConfig | MiniConfig = None  # type: ignore[assignment]
    """Settings of the game; its defaults if None."""

    def __post_init__(self) -> None:
        method = find_method(self.method)
        object.__setattr__(self, "method", method.name)
        object.__setattr__(self, "game", resolve_game(self.game))
        if self.reward is None:
            object.__setattr__(self, "reward", method.config())
        if self.env is None:
            object.__setattr__(self, "env", env_config_class(self.game)())
        if self.frames < 1:
            raise UsageError(f"--frames is {self.frames}; it must be at least 1.")
        if not 0 <= self.seed < 2**31:
            raise UsageError(f"--seed is {self.seed}; it must lie between 0 and {2**31 - 1}.")
        if not self.checkpoint_minutes >= 0:
            raise UsageError(f"--checkpoint-minutes is {self.checkpoint_minutes}; it must be 0 or more.")
        groups = self.env.groups if isinstance(self.env, AtariConfig) else 1
        if self.ppo.n_envs % groups:
            raise UsageError(
                f"--env.groups is {groups}, which does not divide the {self.ppo.n_envs} environments "
                "(--ppo.n-envs); choose a divisor, or 1."
            )
        if self.uses_oracle and not self.is_mini:
            raise UsageError(
                f"--control.oracle.lags is {self.control.oracle.lags}, but an oracle knows mini games only and "
                f"{self.game} is none; use 0, or --game mini-pong."
            )

    @property
    def spec(self) -> Method:
        return find_method(self.method)

    @property
    def is_mini(self) -> bool:
        return self.game in MINI_CONFIGS

    @property
    def hides_score(self) -> bool:
        """Whether score boxes are painted out: always under the play protocol."""
        return {"auto": not self.spec.uses_score, "yes": False, "no": True}[self.show_score]

    @property
    def plays_by_itself(self) -> bool:
        """Whether it learns to act and never sees the score."""
        return self.spec.trains_policy and not self.spec.uses_score

    @property
    def shows_g(self) -> bool:
        """Whether the policy sees g."""
        return {"auto": self.plays_by_itself, "yes": self.spec.trains_policy, "no": False}[self.g_channel]

    @property
    def tracks_control(self) -> bool:
        """Whether control models learn and the tracker runs."""
        return self.shows_g or self.spec.needs_control

    @property
    def uses_oracle(self) -> bool:
        """Whether the control maps are not learnt but true: a diagnosis, not a result."""
        return self.control.oracle.lags > 0

    def overlaps_on(self, device: str) -> bool:
        """Whether the control models learn while the next rollout is collected."""
        wanted = self.control.overlap == "on" or (self.control.overlap == "auto" and device == "cuda")
        return wanted and self.tracks_control and not self.uses_oracle

    @property
    def warmup_iterations(self) -> int:
        """Rollouts of random actions in which only models learn: the same for every method of the play protocol."""
        return -(-self.control.warmup_steps // self.ppo.batch) if self.plays_by_itself else 0

    @property
    def frames_per_iteration(self) -> int:
        return self.ppo.batch * (self.env.frame_skip if isinstance(self.env, AtariConfig) else 1)

    @property
    def iterations(self) -> int:
        """Rollouts needed for at least `frames` frames."""
        return -(-self.frames // self.frames_per_iteration)


def env_config_class(game: str) -> type[AtariConfig] | type[MiniConfig]:
    """The class of a game's settings; the game by its canonical name."""
    return MINI_CONFIGS.get(game, AtariConfig)


# Presets -----------------------------------------------------------------------------------------------------------


def paper(config: TrainConfig) -> TrainConfig:
    """The paper's text, literally: PPO with its published Atari settings, sparsemax, Eq. 10 and 11 as printed."""
    return replace(
        config,
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
        ppo=PPOConfig(normalise_advantages="rollout"),
        policy=PolicyConfig(trunk="nature-32"),
        control=released_control(config.control),
        reward=without_loss_at_the_end(config.reward),
        g_channel="no",
    )


def without_loss_at_the_end(reward: Any) -> Any:
    """[D21] is ours."""
    return replace(reward, end_takes_all=False) if isinstance(reward, MegaConfig) else reward


def plain(config: TrainConfig) -> TrainConfig:
    """The default for Atari: the paper's PPO, with the control models' settings that measured best."""
    return config


def many(config: TrainConfig) -> TrainConfig:
    """Many environments on a GPU: the paper's number of passes over each sample, in minibatches of 512.

    128 x 32 samples per update keep the policy fresh (one update per 4096 decisions); the learning rate grows with
    the square root of the minibatch's size. Emulators work in four groups that take turns.
    """
    ppo = PPOConfig(
        n_envs=128, rollout=32, minibatches=8, learning_rate=3.5e-4, precision="bfloat16", clip_decays=False
    )
    env = replace(config.env, groups=4) if isinstance(config.env, AtariConfig) else config.env
    return replace(config, ppo=ppo, env=env)


def mini(config: TrainConfig) -> TrainConfig:
    """Small worlds on two cores: 32 environments, small networks, and a learning rate of 1e-3 for all of them."""
    ppo = PPOConfig(n_envs=32, rollout=64, minibatches=8, epochs=3, learning_rate=1e-3, clip=0.2, clip_decays=False)
    reward = replace(config.reward, learning_rate=1e-3) if hasattr(config.reward, "learning_rate") else config.reward
    return replace(config, ppo=ppo, control=mini_control(config.control), reward=reward)


def debug(config: TrainConfig) -> TrainConfig:
    """Everything tiny: finishes in seconds, learns nothing."""
    ppo = PPOConfig(n_envs=3, rollout=8, minibatches=2, epochs=1)
    control = replace(mini_control(config.control), batch=8, warmup_steps=24)
    return replace(config, ppo=ppo, control=control, checkpoint_minutes=0.0, frames=min(config.frames, 96))


def without_fast_paths(config: TrainConfig) -> TrainConfig:
    """`--plain`: the same run as plainly as it can be computed: float32, kernel by kernel, one thing after another."""
    execution = replace(config.control.execution, bf16="off", dense="off", fused="off", folded="off", graph="off")
    return replace(
        config,
        ppo=replace(config.ppo, precision="float32", cuda_graphs=False),
        control=replace(config.control, overlap="off", execution=execution),
        env=replace(config.env, groups=1) if isinstance(config.env, AtariConfig) else config.env,
    )


PRESETS = {"plain": plain, "paper": paper, "released": released, "many": many, "mini": mini, "debug": debug}


def with_preset(config: TrainConfig, preset: str) -> TrainConfig:
    """Apply a named preset; `auto` is `mini` for mini games and `plain` for Atari."""
    if preset == "auto":
        preset = "mini" if config.is_mini else "plain"
    if preset not in PRESETS:
        known = ", ".join(["auto", *PRESETS])
        raise UsageError(f"There is no preset '{preset}'.{suggestion(preset, PRESETS)} Presets: {known}.")
    return PRESETS[preset](config)


# Reading and writing -------------------------------------------------------------------------------------------------


def to_dict(config: Any) -> dict[str, Any]:
    return dataclasses.asdict(config)


def bearing(config: dict[str, Any]) -> dict[str, Any]:
    """The settings, as `to_dict` gives them, that bear on what is learnt: without those that change no number, and
    without the control models' where none is trained, but for the length of the warm-up, which all methods share that
    never see the score."""
    run = TrainConfig(method=config["method"], game=config["game"], g_channel=config.get("g_channel", "auto"))
    bears = {name: value for name, value in config.items() if name not in NO_BEARING}
    bears["g_channel"] = run.shows_g
    bears["env"] = {name: value for name, value in config["env"].items() if f"env.{name}" not in NO_BEARING}
    if not run.tracks_control:
        bears["control"] = {"warmup_steps": config["control"]["warmup_steps"]} if run.plays_by_itself else {}
    return bears


def from_dict(data: dict[str, Any], source: str, warn: Callable[[str], None] = lambda text: None) -> TrainConfig:
    """Rebuild a config from JSON. A field we do not know means that a newer version wrote it, and is refused; a field
    that is missing is younger than the file: it takes its default, aloud."""
    if not isinstance(data, dict) or "method" not in data:
        raise UsageError(f"{source} holds no configuration of a run.")
    classes = {
        "reward": find_method(str(data["method"])).config,
        "env": env_config_class(resolve_game(str(data.get("game")))),
    }
    return typing.cast(TrainConfig, _build(TrainConfig, data, source, classes, warn))


def _build(cls: type, data: dict[str, Any], source: str, classes: dict[str, type], warn: Callable[[str], None]) -> Any:
    if not isinstance(data, dict):
        raise UsageError(f"{source} has {data!r} in place of the settings of {cls.__name__}.")
    hints = typing.get_type_hints(cls)
    names = [f.name for f in dataclasses.fields(cls)]
    if strange := sorted(set(data) - set(names)):
        raise UsageError(
            f"{source} was written by another version of megareward: it sets '{strange[0]}', which {cls.__name__} "
            "does not have. Use that version to resume it, or start a new run."
        )
    if missing := sorted(set(names) - set(data)):
        warn(f"{source} is older than {', '.join(missing)} of {cls.__name__}; the defaults are used.")
    values = {}
    for name, value in data.items():
        kind = classes.get(name, hints[name])
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            value = _build(kind, value, source, {}, warn)
        elif typing.get_origin(kind) is tuple:  # JSON knows lists only
            value = tuple(value)
        values[name] = value
    try:
        return cls(**values)
    except TypeError as why:
        raise UsageError(f"{source} has a value of the wrong kind in {cls.__name__} ({why}).") from why
