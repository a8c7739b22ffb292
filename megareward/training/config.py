"""The config of a run. A run is a pure function of it and of nothing else. Free of torch."""

import dataclasses
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from megareward.control.config import ControlConfig, ThingsConfig
from megareward.envs.config import EnvConfig, Game
from megareward.envs.games import find_game
from megareward.envs.noise_config import NoiseConfig
from megareward.errors import UsageError
from megareward.ppo.config import PolicyConfig, PPOConfig
from megareward.rewards import Method, find_method
from megareward.rewards.settings import ScoreConfig
from megareward.runs.folder import RunFolder

CONFIG_VERSION = 2
"""Rises when a config file of an older version can no longer be read."""

NO_BEARING = ("device", "checkpoint_minutes", "env.threads", "control.execution")
"""Settings that change numbers by rounding at most: the device, how often a run saves, emulator threads, and how
control models are computed, whose `auto` depends on the device anyway."""

MOST_SAMPLES = 2**24
"""Most samples in one rollout: their frames alone take 16 GiB in mini games, 118 GiB in Atari."""

FARTHEST_SHIFT = 16
"""Largest --stabilise, in pixels per step. The search time grows with its square: 544 shifts are tried for 16."""


@dataclass(frozen=True)
class TrainConfig:
    """One training run."""

    method: str
    """The reward that the agent is trained on; `megareward methods` lists all."""
    game: str = "mini-pong"
    """Name of the game in any common spelling; `megareward games` lists all."""
    frames: int = 200_000
    """Emulator frames to train for. Atari: 4 per agent step, so 80M frames are 20M decisions. Mini games: 1."""
    seed: int = 0
    """Seed of all random numbers of the run."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of the networks; auto: a GPU if there is one."""
    deterministic: bool = False
    """Use only deterministic kernels, so that two runs of one seed on the same GPU are bit-equal; may be slower. Runs
    on a CPU are reproducible without it."""
    show_score: Literal["auto", "yes", "no"] = "auto"
    """Whether the score stays visible on the screen. auto: only if the agent is trained on it anyway."""
    checkpoint_minutes: float = 2.0
    """Minutes between checkpoints; 0: save after every update."""
    n_envs: int = 8
    """Environments stepped together (PPO paper: 8)."""
    rollout_steps: int = 128
    """Agent steps per environment between two updates (PPO paper: 128)."""
    warmup_steps: int = 614_400
    """Length of the warm-up in decisions: random play at the start, from which only models learn. The same for every
    method with a reward of its own, and for world-model. Not in the paper. Released code: 600 rollouts of 8 x 128.
    `megareward train` takes at most a quarter of the run's decisions, unless this is given."""
    episodic: bool = True
    """Whether a return ends at death; the same rule for every method. True (released code): it ends with a lost life
    (Atari; see --env.life-loss-is-terminal) or a lost game. False: it continues into the next life and the next game,
    and mega-reward loses nothing at an end."""
    with_score: bool = False
    """Also train on the game's score, as a second reward stream beside the method's own (--score.*). Not the paper's
    setting; tables mark it beside the method's name."""
    score: ScoreConfig = field(default_factory=ScoreConfig)
    noise: NoiseConfig = field(default_factory=NoiseConfig)
    stabilise: int = 0
    """Hold the picture still if the player moves the camera: shifts of the whole screen by up to this many pixels per
    step are detected and undone (docs/games.md). 0: frames are shown as they are."""
    start_from: str | None = None
    """Folder of another run to start from: its policy's trunk and action head, and the models of observers that both
    runs have, are taken over. Value heads, optimiser, schedules and reward models start fresh."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    g_channel: Literal["auto", "yes", "no"] = "no"
    """Whether the policy sees g as an extra channel. auto: with every method that does not use the score, as in
    the paper."""
    control: ControlConfig = field(default_factory=ControlConfig)
    reward: Any = None
    """Settings of the method; its defaults if None."""
    env: EnvConfig = None  # type: ignore[assignment]
    """Settings of the game; its defaults if None."""

    def __post_init__(self) -> None:
        method = find_method(self.method)
        object.__setattr__(self, "method", method.name)
        object.__setattr__(self, "game", find_game(self.game).name)
        if self.reward is None:
            object.__setattr__(self, "reward", method.config())
        if self.env is None:
            object.__setattr__(self, "env", self.game_row.config())
        if self.frames < 1:
            raise UsageError(f"--frames is {self.frames}; it must be at least 1.")
        if not 0 <= self.seed < 2**31:
            raise UsageError(f"--seed is {self.seed}; it must lie between 0 and {2**31 - 1}.")
        if not self.checkpoint_minutes >= 0:
            raise UsageError(f"--checkpoint-minutes is {self.checkpoint_minutes}; it must be 0 or more.")
        if self.method_row.latent:
            latent = dataclasses.replace(self.control.latent, **self.method_row.latent)
            object.__setattr__(self, "control", dataclasses.replace(self.control, latent=latent))
        if self.with_score and not self.plays_by_itself:
            why = "is trained on the score already" if self.method_row.uses_score else "learns nothing"
            raise UsageError(f"--with-score adds the score to another reward, but '{self.method}' {why}; leave it out.")
        for name, value in to_dict(self.score).items():
            if value != getattr(ScoreConfig, name) and not self.with_score:
                name = name.replace("_", "-")
                raise UsageError(f"--score.{name} is {value}, but the score is no reward here; add --with-score.")
        for name in ("n_envs", "rollout_steps"):
            if getattr(self, name) < 1:
                raise UsageError(f"--{name.replace('_', '-')} is {getattr(self, name)}; it must be at least 1.")
        if self.batch > MOST_SAMPLES:
            raise UsageError(
                f"--n-envs {self.n_envs} and --rollout-steps {self.rollout_steps} make {self.batch} samples in a "
                f"rollout; choose fewer, at most {MOST_SAMPLES} in all."
            )
        if not 0 <= self.stabilise <= FARTHEST_SHIFT:
            raise UsageError(f"--stabilise is {self.stabilise}; use 0 (off) to {FARTHEST_SHIFT} pixels.")
        if self.warmup_steps < 0:
            raise UsageError(f"--warmup-steps is {self.warmup_steps}; it must be 0 or more.")
        if self.batch % self.ppo.minibatches:
            raise UsageError(
                f"--ppo.minibatches is {self.ppo.minibatches}, which does not divide the {self.batch} samples of a "
                f"rollout ({self.n_envs} environments x {self.rollout_steps} steps); choose a divisor."
            )
        if self.n_envs % self.env.groups:
            raise UsageError(
                f"--env.groups is {self.env.groups}, which does not divide the {self.n_envs} environments "
                "(--n-envs); choose a divisor, or 1."
            )
        if self.policy.stack < self.method_row.least_stack:
            raise UsageError(
                f"--policy.stack is {self.policy.stack}, but '{self.method}' compares frames; give it "
                f"{self.method_row.least_stack} or more."
            )
        if self.tracks_control and self.policy.stack < self.control.rtm.stack:
            raise UsageError(
                f"--policy.stack is {self.policy.stack}, but the control models see {self.control.rtm.stack} frames "
                "(--control.rtm.stack); give the policy as many or more."
            )
        if self.uses_oracle and self.stabilise:
            raise UsageError(
                f"--stabilise is {self.stabilise}, but an oracle's maps lie on the screen as it is; use 0, or no "
                "--control.oracle.lags."
            )
        if self.uses_oracle and self.game_row.branching != "online":
            raise UsageError(
                f"--control.oracle.lags is {self.control.oracle.lags}, but {self.game} cannot be branched while it is "
                "played, as an oracle must; use 0, or --game mini-pong."
            )

    @property
    def method_row(self) -> Method:
        return find_method(self.method)

    @property
    def game_row(self) -> Game:
        return find_game(self.game)

    @property
    def uses_score(self) -> bool:
        """Whether the game's rewards are recorded and reach the learner; never under the play protocol."""
        return self.method_row.uses_score or self.with_score

    @property
    def hides_score(self) -> bool:
        """Whether score boxes are painted out. --show-score auto: always, unless a policy learns from the score."""
        shown = self.uses_score and self.method_row.policy_learns
        return {"auto": not shown, "yes": False, "no": True}[self.show_score]

    @property
    def plays_by_itself(self) -> bool:
        """Whether the method trains a policy on something other than the score, which may be added (`with_score`)."""
        return self.method_row.trains_policy and not self.method_row.uses_score

    @property
    def warms_up(self) -> bool:
        """Whether the run begins with random play, from which its models learn."""
        return self.plays_by_itself or (self.method_row.models_first and self.start_from is None)

    @property
    def shows_g(self) -> bool:
        """Whether the policy sees g."""
        return {"auto": self.plays_by_itself, "yes": self.method_row.trains_policy, "no": False}[self.g_channel]

    @property
    def observers(self) -> tuple[str, ...]:
        """Names of the observers: the method's own, and `control` if the policy sees g."""
        return tuple(dict.fromkeys([*self.method_row.observers, *(["control"] if self.shows_g else [])]))

    @property
    def observers_of_policy(self) -> tuple[str, ...]:
        """Observers that the policy needs to act: all of them if it sees any recorded field, else none."""
        spec = self.method_row
        return self.observers if self.channels or spec.vectors or spec.skill else ()

    @property
    def channels(self) -> tuple[str, ...]:
        """Recorded fields that the policy sees as channels."""
        return tuple(dict.fromkeys([*self.method_row.channels, *(["g"] if self.shows_g else [])]))

    @property
    def tracks_control(self) -> bool:
        """Whether a control map is kept."""
        return "control" in self.observers

    @property
    def uses_oracle(self) -> bool:
        """Whether the control maps are true instead of learnt: for diagnosis, not for results."""
        return self.control.oracle.lags > 0

    def overlaps_on(self, device: str) -> bool:
        """Whether the control models learn while the next rollout is collected."""
        wanted = self.control.overlap == "on" or (self.control.overlap == "auto" and device == "cuda")
        return wanted and self.tracks_control and not self.uses_oracle and not self.control.things.slots

    @property
    def batch(self) -> int:
        """Samples in one rollout."""
        return self.n_envs * self.rollout_steps

    @property
    def warmup_iterations(self) -> int:
        """Rollouts of the warm-up."""
        return -(-self.warmup_steps // self.batch) if self.warms_up else 0

    @property
    def frames_per_iteration(self) -> int:
        return self.batch * self.env.frame_skip

    @property
    def iterations(self) -> int:
        """Rollouts needed for at least `frames` frames."""
        return -(-self.frames // self.frames_per_iteration)


# Reading and writing -------------------------------------------------------------------------------------------------


def to_dict(config: Any) -> dict[str, Any]:
    return dataclasses.asdict(config)


def flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{'ppo': {'clip': 0.1}} -> {'ppo.clip': 0.1}."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found


def bearing(config: dict[str, Any]) -> dict[str, Any]:
    """The settings, as `to_dict` gives them, that affect what is learnt. Left out are those in `NO_BEARING`, those of
    control models if none is trained, the warm-up if there is none, the score's stream if it is not added, and noise
    and camera stabilisation if they are off."""
    config = upgraded(config)
    run = TrainConfig(method=config["method"], game=config["game"], g_channel=config.get("g_channel", "auto"))
    bears = {name: value for name, value in config.items() if name not in NO_BEARING}
    bears["g_channel"] = run.shows_g
    if config.get("start_from"):
        bears["start_from"] = Path(config["start_from"]).name  # which run, wherever it lies
    if "episodic" in config["reward"]:  # the rule that holds, whichever setting it comes from
        exception = {"yes": True, "no": False}.get(config["reward"]["episodic"], config.get("episodic", True))
        bears["reward"] = config["reward"] | {"episodic": exception}
        bears.pop("episodic", None)
    for part in ("env", "control"):
        bears[part] = {name: value for name, value in config[part].items() if f"{part}.{name}" not in NO_BEARING}
    if not run.tracks_control:
        bears["control"] = {}
    elif isinstance(rtm := config["control"].get("rtm"), dict) and rtm.get("model") == "pairs":
        bears["control"]["rtm"] = {name: value for name, value in rtm.items() if not name.startswith("local_")}
    if not (run.plays_by_itself or (run.method_row.models_first and not config.get("start_from"))):
        bears.pop("warmup_steps", None)
    noise = config.get("noise") or {}
    if not noise.get("std") and noise.get("tv", "none") == "none":
        bears.pop("noise", None)
    if not config.get("stabilise"):
        bears.pop("stabilise", None)
    if not config.get("with_score"):
        bears = {name: value for name, value in bears.items() if name not in ("with_score", "score")}
    return bears


BEFORE_A_CHOICE: dict[str, dict[str, Any]] = {
    "adm": {"direct": "attention"},
    "rtm": {"model": "pairs", "local_credit": "even"},
    "latent": {"combine": "sum"},
}
"""Values of control model settings for runs that are older than the setting: what was done then."""


def upgraded(config: dict[str, Any]) -> dict[str, Any]:
    """Settings of an older version under their present names; current ones are returned as they are. Settings that did
    not exist get what was done then: cells rather than things carried control, direct control was attention, RTM was of
    pairs, control was summed, and all pixels counted alike."""
    control = config.get("control")
    if isinstance(control, dict):
        for name, was in BEFORE_A_CHOICE.items():
            if isinstance(control.get(name), dict):
                control = control | {name: was | control[name]}
        if control:
            control = {"things": dataclasses.asdict(ThingsConfig()), **control}
        config = config | {"control": control}
    if "n_envs" in config or not isinstance(config.get("ppo"), dict):
        return config
    reward = dict(config.get("reward") or {})
    if isinstance(reward.get("episodic"), bool):  # each method had a rule of its own
        reward["episodic"] = "yes" if reward["episodic"] else "no"
    ppo, control = dict(config["ppo"]), dict(config.get("control", {}))
    moved = {"n_envs": ppo.pop("n_envs", 8), "rollout_steps": ppo.pop("rollout", 128), "start_from": None}
    if "warmup_steps" in control:
        moved["warmup_steps"] = control.pop("warmup_steps")
        control["background_frames"] = max(control.get("normalise_frames", 10_000), moved["warmup_steps"])
    return config | {"ppo": ppo, "control": control, "reward": reward, "episodic": True} | moved


def create_run(
    path: Path,
    config: TrainConfig,
    provenance: dict[str, Any],
    start: dict[str, Any] | None = None,
    files: dict[str, bytes] | None = None,
    numbered: bool = False,
) -> RunFolder:
    """Create the folder of a new run. `start`: what it starts from, for config.json. `files`: its first files beside
    config.json. `numbered`: if `path` exists, take the first free of path-2, path-3, ..."""
    record = {"config_version": CONFIG_VERSION, "config": to_dict(config), "provenance": provenance}
    return RunFolder.create(path, record | ({"start": start} if start else {}), files, numbered)


def read_config(folder: RunFolder, warn: Callable[[str], None] = lambda text: None) -> TrainConfig:
    """The settings of a run on disk, also of one that an older version wrote."""
    record, source = folder.record(), folder.path / "config.json"
    version = record.get("config_version")
    if not isinstance(version, int) or not 1 <= version <= CONFIG_VERSION:
        raise UsageError(
            f"{source} has config version {version}, this megareward reads versions 1 to {CONFIG_VERSION}; "
            "use the megareward that wrote it, or start a new run."
        )
    return from_dict(record["config"], str(source), warn)


def from_dict(data: dict[str, Any], source: str, warn: Callable[[str], None] = lambda text: None) -> TrainConfig:
    """Rebuild a config from JSON. An unknown field was written by another version and is refused. A missing field is
    newer than the file and takes its default, with a warning."""
    if not isinstance(data, dict) or "method" not in data:
        raise UsageError(f"{source} holds no configuration of a run.")
    data = upgraded(data)
    classes = {
        "reward": find_method(str(data["method"])).config,
        "env": find_game(str(data.get("game"))).config,
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
        elif not _is_of(value, kind):
            shown = getattr(kind, "__name__", None) if isinstance(kind, type) else str(kind).replace("typing.", "")
            raise UsageError(
                f"{source} has {value!r} for '{name}' of {cls.__name__}, which is no {shown}; put it right."
            )
        elif typing.get_origin(kind) is tuple:  # JSON has only lists
            value = tuple(value)
        values[name] = value
    return cls(**values)


def _is_of(value: Any, kind: Any) -> bool:
    """Whether a value from JSON has the type that a field declares."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return isinstance(value, str) and value in parts
    if origin in (typing.Union, types.UnionType):
        return any(_is_of(value, part) for part in parts)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            return False
        each = [parts[0]] * len(value) if parts[1:] == (...,) else parts
        return len(value) == len(each) and all(map(_is_of, value, each))
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**48  # no count is larger
    return kind is Any or isinstance(value, kind)
