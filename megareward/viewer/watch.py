"""The output of `megareward watch`: a recording of a run, as a page and as one picture for reports."""

import io
from collections.abc import Callable
from pathlib import Path

import torch
from PIL import Image

from megareward.runs.durable import save_file
from megareward.viewer.audited import record_audit
from megareward.viewer.figure import best_moment
from megareward.viewer.page import write_page
from megareward.viewer.recording import Recording, record_run
from megareward.viewer.report import PAGE, PAGE_OF_TWO, POSTER
from megareward.viewer.video import poster
from megareward.waiting import waiting


def record(
    run: Path,
    *,
    steps: int = 1000,
    policy: str = "trained",
    audited: bool = False,
    greedy: bool = False,
    seed: int = 1,
    device: torch.device,
    warn: Callable[[str], None] = print,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Recording:
    """Play with a run's newest checkpoint, or with random actions if `policy` is 'random'.

    audited: instead of playing, take the episodes of the run's audit under that policy, with their ground truth;
    `steps`, `greedy` and `seed` have no meaning then.
    """
    if audited:
        with waiting("Making the maps of the audited episodes"):
            return record_audit(run, policy, device=device, warn=warn)
    random = policy == "random"
    return record_run(run, steps, seed=seed, greedy=greedy, random=random, device=device, warn=warn, progress=progress)


def write_watch(recording: Recording, run: Path, out: Path | None = None, beside: Recording | None = None) -> Path:
    """Write the page, by default into the run's folder, and its picture: one step. Returns the page.

    With a recording `beside` the page shows both, and there is no picture.
    """
    with waiting("Writing the page"):
        page = write_page(recording, out or run / (PAGE if beside is None else PAGE_OF_TWO), beside)
    if beside is not None:
        return page
    length = min(40, len(recording))
    t = best_moment(recording, length) + length - 1 if recording.learnt is not None else len(recording) // 2
    picture = io.BytesIO()
    Image.fromarray(poster(recording, t)).save(picture, "PNG")
    save_file(page.with_name(POSTER) if out is None else page.with_suffix(".png"), picture.getvalue())
    return page
