"""`megareward watch RUN`."""

import webbrowser
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import tyro

from megareward.cli.parsing import load_torch, parse
from megareward.cli.play_options import PlayOptions
from megareward.errors import UsageError, warn
from megareward.progress import Bar
from megareward.runs.durable import check_place

LARGE = 25
"""Megabytes above which a page gets a warning; 10,000 steps of a usual game stay below, a screen of noise does not."""


@dataclass(frozen=True, kw_only=True)
class WatchArgs(PlayOptions):
    """Play with a run's newest checkpoint and show what it controls, as one HTML file that needs no network."""

    run: tyro.conf.Positional[Path | None] = None
    """Folder of the run."""
    pretrained: str | None = None
    """Show the agent that comes with the package for this game, such as breakout, instead of a run."""
    beside: Path | None = None
    """Second run of the same game, shown beside the first from the same start, step by step; `random`: random play with
    the maps of RUN."""
    out: Path | None = None
    """Path of the page. [default: RUN/watch.html; with --beside, RUN/watch-beside.html; with --pretrained,
    watch-GAME.html in the current folder]"""
    video: tyro.conf.UseAppendAction[tuple[Path, ...]] = ()
    """Also write a clip of RUN: a name that ends in .gif or .mp4 (MP4 needs ffmpeg). May be given several times."""
    video_start: int | None = None
    """First step of the clips. [default: of the stretch with the most mega-reward]"""
    video_steps: int = 150
    """Length of the clips in steps; 15 steps are one second."""
    open: bool = False
    """Open the page in the browser."""
    live: bool = False
    """Serve a page with the curves and the newest game of a run that is training, for browsers on this machine only."""
    port: int = 0
    """Port of --live; 0: any free one."""

    def second_recording(self, run: Path) -> Any:
        """The recording to show beside the run, or None."""
        if self.beside == Path("random"):
            return replace(self, policy="random").recording(run)
        return None if self.beside is None else self.recording(self.beside)


def command(words: list[str]) -> int:
    args: WatchArgs = parse(WatchArgs, words, "watch")
    run, out = chosen(args)
    load_torch()
    if args.live:
        from megareward.viewer.live import run_server

        run_server(run, args.port, say=partial(print, flush=True))
        return 0

    from megareward.viewer.figure import best_moment
    from megareward.viewer.report import PAGE, PAGE_OF_TWO
    from megareward.viewer.video import check_video, write_video
    from megareward.viewer.watch import write_watch

    check_place(out or run / (PAGE_OF_TWO if args.beside else PAGE))
    for video in args.video:
        check_video(video)
    recording = args.recording(run)
    page = write_watch(recording, run, out, args.second_recording(run))
    megabytes = page.stat().st_size / 1e6
    print(f"Wrote {page} ({megabytes:.1f} MB); open it in any browser.")
    if megabytes > LARGE:
        warn(f"It is larger than {LARGE} MB and may open slowly; fewer --steps make it smaller.")
    if not args.audited and any(run.glob("audit-*.json")):
        print(f"`megareward watch {run} --audited` shows the truth beside the maps.")
    if args.video:
        length, start = min(args.video_steps, len(recording)), args.video_start
        if start is None:
            start = best_moment(recording, length) if recording.learnt is not None else 0
        for video in args.video:
            write_video(recording, video, start, length, progress=Bar("steps drawn"))
            print(f"Wrote {video}: steps {start} to {start + length - 1}.")
    if args.open:
        webbrowser.open(page.resolve().as_uri())
    return 0


def chosen(args: WatchArgs) -> tuple[Path, Path | None]:
    """The run to show, and the path of the page; None for the usual one in the run's folder."""
    from megareward.training.pretrained import find_pretrained, pretrained_games

    if (args.run is None) == (args.pretrained is None):
        agents = " or ".join(pretrained_games())
        raise UsageError(f"Give either the folder of a run or --pretrained GAME, where GAME is {agents}.")
    if args.pretrained is None:
        assert args.run is not None
        return args.run, args.out
    if args.live or args.audited:
        what = "--live" if args.live else "--audited"
        raise UsageError(
            f"{what} is for runs of your own; an agent that comes with the package has neither logs nor audits."
        )
    run = find_pretrained(args.pretrained)
    return run, args.out or Path(f"watch-{run.name}.html")
