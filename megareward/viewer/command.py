"""`megareward watch`, `megareward figure` and `megareward report`."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from megareward.errors import UsageError, suggestion
from megareward.progress import Bar

FIGURES = ("case-study", "curves")
LARGE = 25
"""Megabytes of a page that 10,000 steps of a usual game never reach; a screen full of noise does."""


@dataclass(frozen=True)
class WatchArgs:
    """Play with a run's newest checkpoint and show what it controls, as one HTML file that needs no network."""

    run: tyro.conf.Positional[Path]
    """Folder of the run."""
    steps: int = 1000
    """Decisions to record; games follow each other."""
    out: Path | None = None
    """The page. [default: RUN/watch.html]"""
    video: tyro.conf.UseAppendAction[tuple[Path, ...]] = ()
    """Also write a clip: a name that ends in .gif or .mp4 (MP4 needs ffmpeg). May be given several times."""
    video_start: int | None = None
    """First step of the clips. [default: where most is earned]"""
    video_steps: int = 150
    """Length of the clips; 15 steps are a second."""
    policy: Literal["trained", "random"] = "trained"
    """Who plays; the control models are the run's own in both cases."""
    audited: bool = False
    """Show the episodes of `megareward audit RUN --policy POLICY` and their truth instead of playing new ones."""
    greedy: bool = False
    """Take the likeliest action instead of drawing one."""
    seed: int = 1
    device: Literal["auto", "cpu", "cuda"] = "auto"
    open: bool = False
    """Open the page in the browser."""


@dataclass(frozen=True)
class FigureArgs:
    """Draw the paper's case study for a run, as PNG and PDF: frames, direct control, g, reward."""

    run: Path
    """Folder of the run."""
    out: Path | None = None
    """The pictures; the suffix is put on. [default: RUN/case-study]"""
    columns: int = 11
    """Frames side by side (paper: 11)."""
    every: int = 1
    """Steps between two frames; each bar shows what was earned since the frame before."""
    start: int | None = None
    """First step. [default: where most is earned]"""
    steps: int = 1000
    """Decisions to record, from which the moment is chosen."""
    policy: Literal["trained", "random"] = "trained"
    """Who plays."""
    audited: bool = False
    """Choose from the episodes of `megareward audit RUN --policy POLICY`; the truth gets rows of its own."""
    greedy: bool = False
    seed: int = 1
    device: Literal["auto", "cpu", "cuda"] = "auto"


@dataclass(frozen=True)
class CurvesArgs:
    """Draw score against frames for recorded runs, as PNG and PDF: a panel per game, published scores beside them."""

    records: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Records, or folders that hold them. [default: those that `megareward results` shows]"""
    game: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Only this game; may be given several times. [default: all that have records]"""
    out: Path = Path("curves")
    """The pictures; the suffix is put on."""


@dataclass(frozen=True)
class ReportArgs:
    """Write one HTML page about a run, or about several side by side. Seeds of one experiment become one line."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of the runs."""
    out: Path | None = None
    """The page. [default: RUN/report.html; of several runs, report.html in the folder that holds them]"""
    watch: bool = False
    """First make the case study of every run that has none."""
    steps: int = 1000
    """Of --watch: decisions to record."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Of --watch."""


def watch(words: list[str], parse: Callable[..., Any]) -> int:
    args: WatchArgs = parse(WatchArgs, words, "watch")
    from megareward.viewer.video import check_video, write_video

    for video in args.video:
        check_video(video)
    recording = _record(args)
    page = write_watch(recording, args.run, args.out)
    megabytes = page.stat().st_size / 1e6
    print(f"Wrote {page} ({megabytes:.1f} MB); open it in any browser.")
    if megabytes > LARGE:
        print(f"It is larger than {LARGE} MB and may open slowly; fewer --steps make it smaller.", file=sys.stderr)
    if not args.audited and (args.run / f"audit-{args.policy}.json").exists():
        print(f"`megareward watch {args.run} --policy {args.policy} --audited` shows the truth beside the maps.")
    if args.video:
        from megareward.viewer.figure import best_moment

        length = min(args.video_steps, len(recording))
        start = args.video_start
        if start is None:
            start = best_moment(recording, length) if recording.learnt is not None else 0
        for video in args.video:
            write_video(recording, video, start, length, progress=Bar("steps drawn"))
            print(f"Wrote {video}: steps {start} to {start + length - 1}.")
    if args.open:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
    return 0


def write_watch(recording: Any, run: Path, out: Path | None = None) -> Path:
    """The page, and one step of it as a picture for reports."""
    from PIL import Image

    from megareward.viewer.figure import best_moment
    from megareward.viewer.page import write_page
    from megareward.viewer.report import PAGE, POSTER
    from megareward.viewer.video import poster

    page = write_page(recording, out or run / PAGE)
    length = min(40, len(recording))
    t = best_moment(recording, length) + length - 1 if recording.learnt is not None else len(recording) // 2
    Image.fromarray(poster(recording, t)).save(page.with_name(POSTER) if out is None else page.with_suffix(".png"))
    return page


def figure(words: list[str], parse: Callable[..., Any]) -> int:
    if not words or words[0].startswith("-"):
        if not {"-h", "--help"} & set(words):
            raise UsageError(f"Which figure? `megareward figure NAME`; figures: {', '.join(FIGURES)}.")
        print("usage: megareward figure NAME [OPTIONS]\n")
        print("case-study --run RUN   the paper's case study: frames, direct control, g, reward")
        print("curves [RECORD...]     score against frames for recorded runs, beside published scores")
        print("\n`megareward figure NAME --help` explains one.")
        return 0
    if words[0] not in FIGURES:
        raise UsageError(
            f"There is no figure '{words[0]}'.{suggestion(words[0], FIGURES)} Figures: {', '.join(FIGURES)}."
        )
    return (_case_study if words[0] == "case-study" else _curves)(words[1:], parse)


def _case_study(words: list[str], parse: Callable[..., Any]) -> int:
    args: FigureArgs = parse(FigureArgs, words, "figure case-study")
    from megareward.viewer.figure import case_study

    paths = case_study(
        _record(args), args.out or args.run / "case-study", columns=args.columns, every=args.every, start=args.start
    )
    print(f"Drew {' and '.join(map(str, paths))}.")
    return 0


def _curves(words: list[str], parse: Callable[..., Any]) -> int:
    args: CurvesArgs = parse(CurvesArgs, words, "figure curves")
    from megareward.analysis.results import usual_records
    from megareward.runs.record import read_records
    from megareward.viewer.curves import choose, draw_curves

    paths = draw_curves(choose(read_records(args.records or usual_records()), args.game), args.out)
    print(f"Drew {' and '.join(map(str, paths))}.")
    return 0


def report(words: list[str], parse: Callable[..., Any]) -> int:
    args: ReportArgs = parse(ReportArgs, words, "report")
    from megareward.viewer.report import PAGE, write_report

    if args.watch:
        for run in args.runs:
            if not (run / PAGE).exists():
                write_watch(_record(WatchArgs(run, args.steps, device=args.device)), run)
    print(f"Wrote {write_report(args.runs, args.out)}.")
    return 0


def _record(args: WatchArgs | FigureArgs) -> Any:
    from megareward.training.run import pick_device
    from megareward.viewer.recording import record_run

    device = pick_device(args.device)
    if args.audited:
        from megareward.viewer.audited import record_audit

        return record_audit(args.run, args.policy, device=device, warn=lambda text: print(text, file=sys.stderr))
    return record_run(
        args.run,
        args.steps,
        seed=args.seed,
        greedy=args.greedy,
        random=args.policy == "random",
        device=device,
        warn=lambda text: print(text, file=sys.stderr),
        progress=Bar("steps played"),
    )
