"""`megareward watch RUN`."""

import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from megareward.cli.parsing import Device, parse, warn
from megareward.progress import Bar

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
    device: Device = "auto"
    open: bool = False
    """Open the page in the browser."""


def command(words: list[str]) -> int:
    args: WatchArgs = parse(WatchArgs, words, "watch")
    from megareward.training.run import pick_device
    from megareward.viewer.figure import best_moment
    from megareward.viewer.video import check_video, write_video
    from megareward.viewer.watch import record, write_watch

    for video in args.video:
        check_video(video)
    recording = record(
        args.run,
        steps=args.steps,
        policy=args.policy,
        audited=args.audited,
        greedy=args.greedy,
        seed=args.seed,
        device=pick_device(args.device),
        warn=warn,
        progress=Bar("steps played"),
    )
    page = write_watch(recording, args.run, args.out)
    megabytes = page.stat().st_size / 1e6
    print(f"Wrote {page} ({megabytes:.1f} MB); open it in any browser.")
    if megabytes > LARGE:
        warn(f"It is larger than {LARGE} MB and may open slowly; fewer --steps make it smaller.")
    if not args.audited and (args.run / f"audit-{args.policy}.json").exists():
        print(f"`megareward watch {args.run} --policy {args.policy} --audited` shows the truth beside the maps.")
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
