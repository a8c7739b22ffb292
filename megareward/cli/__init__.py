"""The command line: one file per command, imported when the command is used. Only this package parses arguments.

Every command's file has a `command(words) -> int`, which returns the exit status. What a command does beyond parsing
and printing is a library function with plain arguments.
"""

import importlib
import os
import sys
import traceback

from megareward import waiting
from megareward.errors import RunError, StoppedError, UsageError, suggestion
from megareward.parent import PARENT, end_with

USAGE = """usage: megareward COMMAND ...

Agents that learn to play by seeking control.

  train METHOD     train an agent            megareward train extrinsic --game pong --frames 10M
  pretrain METHOD  the same with the score hidden, as the first half: then `train extrinsic --from RUN`
  resume RUN       continue a run that was stopped, killed or interrupted
  export RUN       a copy of a run that is small enough to carry; `resume` goes on with it
  eval RUN         play whole games with a trained agent
  audit RUN        score a run's control maps against ground truth, found by branching the game; --maps: your own
  truth GAME       make the ground truth of the benchmark of control maps, and verify it
  probe RUN        return of a good, a random, an idle and the worst player under each form of mega-reward
  watch RUN        see what a run controls: a page that opens in any browser, and clips; or watch --pretrained GAME
  dream RUN        draw what a run's World Model sees and dreams; look for its controller by CMA-ES
  figure NAME      draw a figure: case-study --run RUN, curves --game GAME, masks --run RUN, things GAME
  report RUN...    one page about a run, or about several side by side
  games            list the games; --masks OUT.png draws what is painted out
  methods          list the methods
  results          tabulate recorded runs beside published scores; `results add RUN` records one
  experiment NAME  make all runs of a table, several at a time, and the table; without a name they are listed
  paper            every table and figure of the paper: what is recorded, what is missing, one page of all
  play             what `make play` does: train on a mini game, compare with random play, draw pictures
  bench WHAT       measure speed: emulator, train, growth, control, wrapper, methods

`megareward COMMAND --help` explains one command. --debug anywhere shows tracebacks. --version prints the version.
eval "$(megareward --completion)" completes commands, methods, games and runs in bash (in zsh after bashcompinit).
"""

COMMANDS = {
    "train": "megareward.cli.train",
    "pretrain": "megareward.cli.pretrain",
    "resume": "megareward.cli.resume",
    "export": "megareward.cli.export",
    "eval": "megareward.cli.evaluate",
    "audit": "megareward.cli.audit",
    "probe": "megareward.cli.probe",
    "truth": "megareward.cli.truth",
    "watch": "megareward.cli.watch",
    "dream": "megareward.cli.dream",
    "figure": "megareward.cli.figure",
    "report": "megareward.cli.report",
    "games": "megareward.cli.games",
    "methods": "megareward.cli.methods",
    "results": "megareward.cli.results",
    "experiment": "megareward.cli.experiment",
    "paper": "megareward.cli.paper",
    "play": "megareward.cli.play",
    "bench": "megareward.cli.bench",
}
"""The module of each command."""


def main(words: list[str] | None = None) -> int:
    """Run one command and return its exit status. 0: success. 1: failure. 2: wrong usage. 130: Ctrl-C. 143: SIGTERM.
    129: SIGHUP."""
    words = list(sys.argv[1:] if words is None else words)
    # Before torch is loaded: its threads sleep while they wait. Spinning, they slow small networks down tenfold as
    # soon as anything else wants the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if (parent := os.environ.pop(PARENT, "")).isdecimal():
        end_with(int(parent))
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if not words or words[0] in ("-h", "--help"):
        print(USAGE, end="")
        return 0 if words else 2
    if words[0] == "--version":
        import megareward

        print(megareward.__version__)
        return 0
    if words[0] == "--completion":
        from megareward.cli.completion import script

        print(script(list(COMMANDS)))
        return 0
    waiting.quiet = "--quiet" in words
    try:
        if words[0] not in COMMANDS:
            raise UsageError(f"There is no command '{words[0]}'.{suggestion(words[0], COMMANDS)} See --help.")
        status: int = importlib.import_module(COMMANDS[words[0]]).command(words[1:])
        return status
    except KeyboardInterrupt as stopped:
        return stopped.status if isinstance(stopped, StoppedError) else 130
    except BrokenPipeError:
        return 1
    except Exception as failure:  # the last line of defence: a sentence for the user, the traceback on request
        if debug:
            traceback.print_exc()
        print(f"megareward: {explanation(failure, debug)}", file=sys.stderr)
        return 2 if isinstance(failure, UsageError) else 1


NO_MEMORY = ("t allocate memory", "multiplication overflow", "size calculation overflowed")
"""Parts of torch's error messages about tensors that are too large."""


def explanation(failure: Exception, debug: bool) -> str:
    """The failure in one sentence. Only an exception that nobody foresaw is called an internal error."""
    text, kind = str(failure), type(failure).__name__
    if isinstance(failure, UsageError | RunError):
        return text
    if isinstance(failure, MemoryError) or kind == "OutOfMemoryError" or any(words in text for words in NO_MEMORY):
        return "There is not enough memory for this; use fewer environments, shorter rollouts or smaller sizes."
    if isinstance(failure, OSError) and failure.filename is not None:
        return f"Cannot use {failure.filename} ({failure.strerror}); put it right or name another place."
    text = f"{kind}: {text}" if isinstance(failure, OSError) else f"internal error, {kind}: {text}"
    return text if debug else f"{text} (run again with --debug to see where)"


def run() -> None:
    """The entry point of the installed program."""
    sys.exit(main())
