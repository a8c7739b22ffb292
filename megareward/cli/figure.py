"""`megareward figure NAME`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import tyro

from megareward.cli.parsing import Device, parse
from megareward.cli.play_options import PlayOptions
from megareward.errors import UsageError, suggestion, warn
from megareward.runs.durable import check_place

USAGE = """usage: megareward figure NAME [OPTIONS]

case-study --run RUN   the paper's case study: frames, direct control, g, reward
curves [RECORD...]     score against frames for recorded runs, beside published scores
masks --run RUN        what a run of morel or m-rnd takes for moving objects
things GAME...         what the preset things would take for a thing on the screen of a game; no run is needed

`megareward figure NAME --help` explains one."""


@dataclass(frozen=True, kw_only=True)
class CaseStudyArgs(PlayOptions):
    """Draw the paper's case study for a run, as PNG and PDF: frames, direct control, g, reward."""

    run: Path
    """Folder of the run."""
    out: Path | None = None
    """Path of the pictures; .png and .pdf are added. [default: RUN/case-study]"""
    columns: int = 11
    """Frames side by side (paper: 11)."""
    every: int = 1
    """Steps between two frames; each bar shows the mega-reward since the frame before."""
    start: int | None = None
    """First step. [default: of the stretch with the most mega-reward]"""


@dataclass(frozen=True)
class CurvesArgs:
    """Draw score against frames for recorded runs, as PNG and PDF: a panel per game, published scores beside them."""

    records: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Records, or folders that hold them. [default: those that `megareward results` shows]"""
    game: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Only this game; may be given several times. [default: all that have records]"""
    out: Path = Path("curves")
    """Path of the pictures; .png and .pdf are added."""


@dataclass(frozen=True, kw_only=True)
class MasksArgs:
    """Draw what a run of `morel` or `m-rnd` segments as moving objects, as PNG and PDF: masks over frames, with arrows
    for their motion."""

    run: Path
    """Folder of the run."""
    out: Path | None = None
    """Path of the pictures; .png and .pdf are added. [default: RUN/masks]"""
    columns: int = 8
    """Frames side by side."""
    every: int = 3
    """Steps between two frames."""
    start: int = 20
    """Steps to play before the first frame."""
    seed: int = 1
    device: Device = "auto"


@dataclass(frozen=True)
class ThingsArgs:
    """Draw what is detected as a thing in random play, as PNG and PDF: a row of frames with boxes for each game."""

    games: tyro.conf.Positional[tuple[str, ...]]
    """Which games, side by side."""
    out: Path = Path("things")
    """Path of the pictures; .png and .pdf are added."""
    columns: int = 3
    """Frames side by side."""
    steps: int = 400
    """Steps of random play; the background is learnt from them too."""
    sight: Literal["contrast", "level"] = "contrast"
    """The same as `--control.things.sight` of `megareward train`."""
    seed: int = 1


def draw_what_is_seen(words: list[str]) -> list[Path]:
    args: ThingsArgs = parse(ThingsArgs, words, "figure things")
    if not args.games:
        raise UsageError("Of which game? `megareward figure things GAME ...`")
    check_place(args.out.with_suffix(".png"))
    from megareward.analysis.pyplot import pyplot
    from megareward.control.config import ControlConfig, by_things
    from megareward.viewer.things import draw_things

    pyplot()
    things = replace(by_things(ControlConfig()).things, sight=args.sight)
    return draw_things(args.games, args.out, columns=args.columns, steps=args.steps, seed=args.seed, things=things)


def draw_motion(words: list[str]) -> list[Path]:
    args: MasksArgs = parse(MasksArgs, words, "figure masks")
    from megareward.training.run import pick_device
    from megareward.viewer.motion import draw_masks

    out = args.out or args.run / "masks"
    check_place(out.with_suffix(".png"))
    how = {"columns": args.columns, "every": args.every, "start": args.start, "seed": args.seed}
    return draw_masks(args.run, out, **how, device=pick_device(args.device), warn=warn)


def draw_case_study(words: list[str]) -> list[Path]:
    args: CaseStudyArgs = parse(CaseStudyArgs, words, "figure case-study")
    from megareward.analysis.pyplot import pyplot
    from megareward.viewer.figure import case_study

    pyplot()
    out = args.out or args.run / "case-study"
    check_place(out.with_suffix(".png"))
    recording = args.recording(args.run)
    return case_study(recording, out, columns=args.columns, every=args.every, start=args.start)


def draw_score_curves(words: list[str]) -> list[Path]:
    args: CurvesArgs = parse(CurvesArgs, words, "figure curves")
    from megareward.analysis.results import usual_records
    from megareward.runs.record import read_records
    from megareward.viewer.curves import choose, draw_curves

    return draw_curves(choose(read_records(args.records or usual_records()), args.game), args.out)


FIGURES = {
    "case-study": draw_case_study,
    "curves": draw_score_curves,
    "masks": draw_motion,
    "things": draw_what_is_seen,
}


def command(words: list[str]) -> int:
    if not words or words[0].startswith("-"):
        if not {"-h", "--help"} & set(words):
            raise UsageError(f"Which figure? `megareward figure NAME`; figures: {', '.join(FIGURES)}.")
        print(USAGE)
        return 0
    if words[0] not in FIGURES:
        raise UsageError(
            f"There is no figure '{words[0]}'.{suggestion(words[0], FIGURES)} Figures: {', '.join(FIGURES)}."
        )
    print(f"Drew {' and '.join(map(str, FIGURES[words[0]](words[1:])))}.")
    return 0
