"""The command line. Arguments are declared as dataclasses; torch is imported only by commands that compute."""

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import tyro

from megareward.control.config import ControlConfig
from megareward.errors import RunError, UsageError, suggestion
from megareward.ppo.config import PolicyConfig, PPOConfig
from megareward.progress import Bar
from megareward.quantities import count, parse_count, short_count
from megareward.rewards import METHODS, NoSettings, find_method
from megareward.training.config import TrainConfig, env_config_class, with_preset, without_fast_paths

USAGE = """usage: megareward COMMAND ...

Agents that learn to play by seeking control.

  train METHOD     train an agent            megareward train extrinsic --game pong --frames 10M
  resume RUN       continue a run that was stopped, killed or interrupted
  eval RUN         play whole games with a trained agent
  audit RUN        find out by branching the game whether the run's control maps are true
  watch RUN        see what a run controls: a page that opens in any browser, and clips
  figure NAME      draw a figure: case-study --run RUN, curves --game GAME
  report RUN...    one page about a run, or about several side by side
  games            list the games; --masks OUT.png draws what is painted out
  methods          list the methods
  results          tabulate recorded runs beside published scores; `results add RUN` records one
  experiment NAME  make all runs of a table, several at a time, and the table; without a name they are listed
  play             what `make play` does: train on a mini game, compare with random play, draw pictures
  bench WHAT       measure speed: emulator, train, growth, control, wrapper

`megareward COMMAND --help` explains one command. --debug anywhere shows tracebacks. --version tells the version.
"""

Count = Annotated[
    int,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="N",
        instance_from_str=lambda words: parse_count(words[0]),
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [short_count(value)],
    ),
]
Reward = TypeVar("Reward")
Env = TypeVar("Env")


# train -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainArgs(Generic[Reward, Env]):
    """Train an agent. The run's folder holds everything: settings, logs, scores, checkpoints."""

    reward: Reward
    env: Env
    game: str = "mini-pong"
    """Any common spelling; `megareward games` lists them."""
    frames: Count = 200_000
    """Emulator frames to train for, such as 500k or 80M. Atari: 4 per decision."""
    seed: int = 0
    out: Path | None = None
    """Folder of the run. [default: runs/GAME-METHOD-sSEED, numbered if it exists]"""
    preset: str = "auto"
    """auto (mini games: mini; Atari: plain), plain, paper, released, many, mini, debug. Other options override it."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto takes a GPU if there is one."""
    minutes: float | None = None
    """Stop cleanly after this long; `megareward resume` goes on."""
    checkpoint_minutes: float = 2.0
    """Time between checkpoints; 0 saves after every update."""
    show_score: Literal["auto", "yes", "no"] = "auto"
    """Whether the screen's score stays visible. auto: only for a method that is trained on it anyway."""
    plain: bool = False
    """Switch off all that is only fast: CUDA graphs, bfloat16, fused kernels, overlap, groups of environments."""
    tensorboard: bool = True
    """Write TensorBoard files into the run's folder."""
    quiet: bool = False
    """Say nothing while training."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    g_channel: Literal["auto", "yes", "no"] = "no"
    """[D23] Whether the policy sees g as an extra channel. auto: with every method that does not use the score, as in
    the paper."""
    control: ControlConfig = field(default_factory=ControlConfig)


SHARED = (
    "game",
    "frames",
    "seed",
    "device",
    "checkpoint_minutes",
    "show_score",
    "ppo",
    "policy",
    "g_channel",
    "control",
    "reward",
    "env",
)
"""Arguments that are part of the run's config; the others only say how to run it."""


def train(words: list[str]) -> int:
    if not words or words[0].startswith("-"):
        if not {"-h", "--help"} & set(words):
            raise UsageError(f"Which method? `megareward train METHOD ...`; methods: {', '.join(METHODS)}.")
        parse(TrainArgs[NoSettings, env_config_class("")], words, "train METHOD")  # type: ignore[misc]
        return 0
    method, words = find_method(words[0]), words[1:]
    # The game and the preset decide the other defaults, so they are looked up before the rest is parsed.
    base = TrainConfig(method=method.name, game=option(words, "game", "mini-pong"))
    base = with_preset(base, option(words, "preset", "auto"))
    defaults = TrainArgs(**{name: getattr(base, name) for name in SHARED})
    kind: Any = TrainArgs.__class_getitem__((method.config, type(base.env)))  # type: ignore[attr-defined]
    args = parse(kind, words, f"train {method.name}", default=defaults)
    config = TrainConfig(method=method.name, **{name: getattr(args, name) for name in SHARED})
    if args.plain:
        config = without_fast_paths(config)

    from megareward.runs.folder import free_name
    from megareward.training.run import start

    out = args.out or free_name(Path("runs") / f"{config.game}-{config.method}-s{config.seed}")
    folder = start(config, out, **how_to_run(args))
    if not args.quiet:
        finish(folder)
    return 0


@dataclass(frozen=True)
class ResumeArgs:
    """Continue a run from its newest whole checkpoint."""

    run: tyro.conf.Positional[Path]
    """Folder of the run."""
    minutes: float | None = None
    """Stop cleanly after this long."""
    device: Literal["auto", "cpu", "cuda"] | None = None
    """Move the run to another device. [default: as it was started]"""
    tensorboard: bool = True
    quiet: bool = False


def resume(words: list[str]) -> int:
    args = parse(ResumeArgs, words, "resume")
    from megareward.training.run import resume as resume_run

    folder = resume_run(args.run, device=args.device, **how_to_run(args))
    if not args.quiet:
        finish(folder)
    return 0


def how_to_run(args: TrainArgs[Any, Any] | ResumeArgs) -> dict[str, Any]:
    """Arguments that say how to run, not what."""
    if args.minutes is not None and not args.minutes > 0:
        raise UsageError(f"--minutes is {args.minutes:g}; it must be above 0.")
    return {"minutes": args.minutes, "tensorboard": args.tensorboard, "quiet": args.quiet}


def finish(folder: Any) -> None:
    """Say what came out and where it is."""
    from megareward.analysis.describe import describe_run

    print(describe_run(folder.path))


# eval --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EvalArgs:
    """Play whole games with the newest checkpoint of a run, under the protocol it was trained with."""

    run: tyro.conf.Positional[Path]
    """Folder of the run."""
    episodes: int = 50
    seed: int = 1_000_000
    """Of the games and of the policy's dice; far from the seeds of training."""
    greedy: bool = False
    """Take the likeliest action instead of drawing one."""
    device: Literal["auto", "cpu", "cuda"] = "auto"


def evaluate(words: list[str]) -> int:
    args = parse(EvalArgs, words, "eval")
    from megareward.training.evaluate import evaluate_run
    from megareward.training.run import pick_device

    result = evaluate_run(
        args.run,
        args.episodes,
        seed=args.seed,
        greedy=args.greedy,
        device=pick_device(args.device),
        warn=lambda text: print(text, file=sys.stderr),
        progress=Bar("games"),
    )
    low, high = min(result.scores), max(result.scores)
    cut = f", {result.cut} of them cut by the time limit" if result.cut else ""
    print(
        f"{result.mean:.4g} +- {result.standard_error:.2g} (mean and standard error of {len(result.scores)} games, "
        f"from {low:g} to {high:g}{cut}) at {count(result.frames)} frames of training"
    )
    return 0


def audit(words: list[str]) -> int:
    from megareward.audit.command import command

    return command(words, parse)


# lists -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GamesArgs:
    """List the games."""

    masks: Path | None = None
    """Draw a contact sheet of every game and what is painted out of its screen into this PNG."""


def games(words: list[str]) -> int:
    args = parse(GamesArgs, words, "games")
    if args.masks is not None:
        from megareward.envs.contact_sheet import draw_contact_sheet

        draw_contact_sheet(args.masks, progress=Bar("games drawn"))
        print(f"Drew {args.masks}.")
        return 0
    from megareward.envs.games import list_games

    print(f"{'name':20} {'in papers':18} {'actions':>7}  score on screen")
    for row in list_games():
        print(f"{row.name:20} {row.title:18} {row.actions if row.actions is not None else '':>7}  {row.score}")
    return 0


def methods(words: list[str]) -> int:
    parse(NoSettings, words, "methods")
    for method in METHODS.values():
        sees = "sees the score" if method.uses_score else "never sees the score"
        print(f"{method.name:12} {method.summary}  ({sees})")
    return 0


def results(words: list[str]) -> int:
    from megareward.analysis.results import command

    return command(words, parse)


def experiment(words: list[str]) -> int:
    from megareward.experiments.command import command

    return command(words, parse)


def viewer(name: str) -> Callable[[list[str]], int]:
    def run_viewer(words: list[str]) -> int:
        from megareward.viewer import command

        return int(getattr(command, name)(words, parse))

    return run_viewer


def play(words: list[str]) -> int:
    parse(NoSettings, words, "play")
    from megareward.cli.play import main as play_main

    return play_main()


def bench(words: list[str]) -> int:
    from megareward.bench.command import command

    return command(words, parse)


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "train": train,
    "resume": resume,
    "eval": evaluate,
    "audit": audit,
    "watch": viewer("watch"),
    "figure": viewer("figure"),
    "report": viewer("report"),
    "games": games,
    "methods": methods,
    "results": results,
    "experiment": experiment,
    "play": play,
    "bench": bench,
}


# Parsing and ending ------------------------------------------------------------------------------------------------


def parse(kind: Any, words: list[str], command: str, default: Any = None) -> Any:
    """Parse with tyro, which prints help and refuses typos with exit status 2.

    A value that our own dataclasses refuse is a `UsageError` in the middle of that; tyro would print it in a box and
    exit. The box is held back, and the error goes on to `main` as the one sentence it is.
    """
    extra = {} if default is None else {"default": default}
    held_back = io.StringIO()
    try:
        with contextlib.redirect_stderr(held_back):
            return tyro.cli(kind, args=words, prog=f"megareward {command}", **extra)
    except SystemExit as ending:
        behind = ending.__context__
        while behind is not None and not isinstance(behind, UsageError):
            behind = behind.__context__
        if behind is not None:
            raise behind from None
        print(held_back.getvalue(), end="", file=sys.stderr)
        raise


def option(words: list[str], name: str, default: str) -> str:
    """Look up one option before the full parse."""
    for i, word in enumerate(words):
        if word == f"--{name}" and i + 1 < len(words):
            return words[i + 1]
        if word.startswith(f"--{name}="):
            return word.split("=", 1)[1]
    return default


def main(words: list[str] | None = None) -> int:
    """Run one command. 0: done. 1: it failed. 2: it was asked for something impossible. 130: the user stopped it."""
    words = list(sys.argv[1:] if words is None else words)
    # Before torch is loaded: its threads sleep while they wait. Spinning, they slow small networks down tenfold as
    # soon as anything else wants the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if not words or words[0] in ("-h", "--help"):
        print(USAGE, end="")
        return 0 if words else 2
    if words[0] == "--version":
        import megareward

        print(megareward.__version__)
        return 0
    try:
        if words[0] not in COMMANDS:
            raise UsageError(f"There is no command '{words[0]}'.{suggestion(words[0], COMMANDS)} See --help.")
        return COMMANDS[words[0]](words[1:])
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 1
    except Exception as failure:  # the last line of defence: a sentence for the user, the traceback on request
        if debug:
            traceback.print_exc()
        text = str(failure)
        if not isinstance(failure, UsageError | RunError):
            kind = type(failure).__name__
            text = f"{kind}: {text}" if isinstance(failure, OSError) else f"internal error, {kind}: {text}"
            text += "" if debug else " (run again with --debug to see where)"
        print(f"megareward: {text}", file=sys.stderr)
        return 2 if isinstance(failure, UsageError) else 1


def run() -> None:
    sys.exit(main())


if __name__ == "__main__":
    run()
