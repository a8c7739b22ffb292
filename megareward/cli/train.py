"""`megareward train METHOD`."""

import inspect
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

import tyro

from megareward.cli.parsing import Count, load_torch, option, parse
from megareward.cli.run_options import RunOptions, print_summary
from megareward.envs.atari_config import AtariConfig
from megareward.envs.config import EnvConfig
from megareward.errors import UsageError
from megareward.rewards import METHODS, find_method
from megareward.training.config import TrainConfig, to_dict
from megareward.training.presets import refuse_only_warmup, with_preset, with_short_warmup, without_fast_paths
from megareward.training.settings_file import read_settings, with_settings, write_settings

if TYPE_CHECKING:
    from megareward.runs.folder import RunFolder

Reward = TypeVar("Reward")
Env = TypeVar("Env", bound=EnvConfig)


@dataclass(frozen=True)
class TrainArgs(RunOptions, TrainConfig, Generic[Reward, Env]):
    """Train an agent. The run's folder holds everything: settings, logs, scores, checkpoints."""

    # Every field of TrainConfig is an option. These five are declared again to be parsed in their own way.
    method: tyro.conf.Suppress[str]
    frames: Count = TrainConfig.frames
    """Emulator frames to train for, such as 500k or 80M. Atari: 4 per decision."""
    start_from: Annotated[str | None, tyro.conf.arg(name="from", metavar="RUN")] = None
    """Start from another run: take over its policy's trunk and action head, and the models of observers that both runs
    have. Value heads, optimiser, schedules and reward models start fresh."""
    reward: Reward = None  # type: ignore[assignment]
    env: Env = None  # type: ignore[assignment]

    out: Path | None = None
    """Folder of the run. [default: runs/GAME-METHOD-sSEED, numbered if it exists]"""
    preset: str = "auto"
    """auto (mini games: mini; Atari: default), default, paper, released, moved, things, rnd-paper, many, mini,
    debug; or several with commas, applied in order, such as paper,many. Options override them."""
    count: Literal["frames", "steps"] = "frames"
    """Unit of --frames: emulator frames, or the agent's steps (4 frames each in Atari, 1 in mini games). The paper's
    budgets are in steps and may mean either."""
    config_file: Annotated[Path | None, tyro.conf.arg(name="config", metavar="FILE")] = None
    """Read settings from a YAML file of lines such as `ppo.clip: 0.2`. It overrides presets, and options override it.
    It may also name the method: `megareward train --config FILE`."""
    write_config: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write all settings into such a file instead of training."""
    plain: bool = False
    """Switch off all that only saves time: CUDA graphs, bfloat16, fused kernels, overlap, groups of environments."""

    def config(self) -> TrainConfig:
        """The settings of the training, without the options of this command."""
        config = TrainConfig(**{field.name: getattr(self, field.name) for field in fields(TrainConfig)})
        if self.count == "steps":
            config = replace(config, frames=config.frames * config.env.frame_skip)
        return without_fast_paths(config) if self.plain else config


def parse_args(words: list[str], verb: str = "train") -> TrainArgs[Any, Any]:
    """The first word is the method. It, the game and the preset decide the other defaults, so these three are looked
    up before the rest is parsed."""
    file = option(words, "config", "")
    settings = read_settings(Path(file)) if file else {}
    given = None if words[0].startswith("-") else words[0]
    method = find_method(str(given or settings.get("method", "")))
    if find_method(str(settings.pop("method", method.name))) is not method:
        raise UsageError(
            f"{file} is about another method than '{method.name}'; leave the method out of one of the two."
        )
    game = option(words, "game", str(settings.pop("game", TrainConfig.game)))
    defaults: Any = TrainArgs(method=method.name, game=game)
    defaults = with_preset(defaults, option(words, "preset", "auto"))  # presets replace fields, so it stays TrainArgs
    if settings:
        config = with_settings(defaults.config(), settings, Path(file))
        defaults = replace(defaults, **{field.name: getattr(config, field.name) for field in fields(TrainConfig)})
    return typed_parse(defaults, words[1:] if given else words, f"{verb} {method.name}")


def typed_parse(defaults: TrainArgs[Any, Any], words: list[str], command: str) -> TrainArgs[Any, Any]:
    """Parse with the settings classes of this method and this game."""
    reward, env = described(type(defaults.reward)), described(type(defaults.env))
    args: TrainArgs[Any, Any] = parse(TrainArgs[reward, env], words, command, default=defaults)  # type: ignore[valid-type]
    return args


def described(settings: type) -> Any:
    """The type, headed in the help by its own docstring instead of the field's."""
    return Annotated[settings, tyro.conf.arg(help=inspect.getdoc(settings))]


def command(words: list[str]) -> int:
    if not words or (words[0].startswith("-") and not option(words, "config", "")):
        if not {"-h", "--help"} & set(words):
            raise UsageError(f"Which method? `megareward train METHOD ...`; methods: {', '.join(METHODS)}.")
        typed_parse(TrainArgs("random", env=AtariConfig()), words, "train METHOD")  # it has no settings of its own
        return 0
    args = parse_args(words)
    config = settled(args, words)
    if args.write_config is not None:
        print(f"Wrote {write_settings(config, args.write_config)}.")
        return 0
    load_torch()
    make_run(args, config)
    return 0


def settled(args: TrainArgs[Any, Any], words: list[str]) -> TrainConfig:
    """The final settings of the run. A warm-up that was not set explicitly is shortened for a short run."""
    config, file = args.config(), option(words, "config", "")
    if not option(words, "warmup-steps", "") and not (file and "warmup_steps" in read_settings(Path(file))):
        config = with_short_warmup(config)
    refuse_only_warmup(config)
    return config


def make_run(args: TrainArgs[Any, Any], config: TrainConfig, kind: str = "") -> "RunFolder":
    """Train to the end and print the results. `kind` follows the method in the folder's name."""
    from megareward.runs.logs import shown_method
    from megareward.training.run import start

    out = args.out or Path("runs") / f"{config.game}-{shown_method(to_dict(config))}{kind}-s{config.seed}"
    folder = start(config, out, numbered=args.out is None, **args.keywords())
    if not args.quiet:
        print_summary(folder.path)
    return folder
