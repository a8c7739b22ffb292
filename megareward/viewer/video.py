"""A clip of a recording, as GIF, or as MP4 if ffmpeg is available."""

import importlib
import importlib.util
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from megareward.errors import RunError, UsageError
from megareward.runs.durable import check_place, explained, replacing
from megareward.viewer.drawing import TITLES, maps_of, picture
from megareward.viewer.recording import Recording

if TYPE_CHECKING:
    from PIL import ImageDraw

STEPS_PER_SECOND = 15
SIDE, GAP, HEAD, TRACE = 252, 12, 30, 96
"""Pixels of a panel, between panels, of the titles and of the traces."""
PAPER, INK, FAINT, LINE = (16, 18, 22), (236, 238, 242), (154, 162, 177), (70, 76, 88)
AMBER, TEAL = (245, 170, 52), (96, 191, 166)
WINDOW = 120
"""Steps that the traces show."""


def write_video(
    recording: Recording,
    path: Path,
    start: int = 0,
    steps: int | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Path:
    """Write some or all steps of a recording; the suffix decides the format: .gif or .mp4."""
    steps = len(recording) - start if steps is None else steps
    check_video(path)
    if not (start >= 0 and steps >= 1 and start + steps <= len(recording)):
        raise UsageError(f"Steps {start} to {start + steps} do not lie in a recording of {len(recording)} steps.")
    painter, write = Painter(recording), _write_gif if path.suffix.lower() == ".gif" else _write_mp4

    def images() -> Iterator[np.ndarray]:
        for done, t in enumerate(range(start, start + steps), 1):
            yield painter.image(t)
            progress(done, steps)

    samples = [painter.image(int(t)) for t in np.linspace(start, start + steps - 1, 8)]
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as scratch:
            write(images(), samples, scratch)
    return path


def check_video(path: Path) -> None:
    """Refuse a path that cannot be written, before the work for it."""
    if path.suffix.lower() not in (".gif", ".mp4"):
        raise UsageError(f"'{path}' ends in '{path.suffix}'; a video ends in .gif or .mp4.")
    if path.suffix.lower() == ".mp4":
        find_ffmpeg(path)
    check_place(path)


def find_ffmpeg(wanted: Path) -> str:
    """The program on the path, or the one inside the package imageio-ffmpeg if that is installed."""
    program = shutil.which("ffmpeg")
    if program is None and importlib.util.find_spec("imageio_ffmpeg"):
        program = importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
    if program is None:
        raise UsageError(
            f"{wanted} needs ffmpeg, which is not on the path. `pip install imageio-ffmpeg` brings one (so does your "
            f"system's package manager); or write {wanted.with_suffix('.gif')}, which needs nothing."
        )
    return str(program)


def poster(recording: Recording, t: int) -> np.ndarray:
    """(height, width, 3) uint8: the picture of one step."""
    return Painter(recording).image(t)


class Painter:
    """Draws steps of a recording: panels side by side, the traces below."""

    def __init__(self, recording: Recording) -> None:
        from PIL import ImageFont

        self.recording, self.maps, self.score = recording, maps_of(recording), recording.score
        self.names = ["frame", *self.maps]
        self.small, self.large = ImageFont.load_default(12), ImageFont.load_default(14)
        px_h, px_w = recording.frames.shape[1:]
        self.scale = max(1, round(SIDE / px_w))
        self.panel_h, self.panel_w = px_h * self.scale, px_w * self.scale
        width = len(self.names) * (self.panel_w + GAP) + GAP
        height = HEAD + self.panel_h + TRACE + 2 * GAP
        self.width, self.height = width + width % 2, height + height % 2  # video wants even sides

    def image(self, t: int) -> np.ndarray:
        from PIL import Image, ImageDraw

        canvas = Image.new("RGB", (self.width, self.height), PAPER)
        draw = ImageDraw.Draw(canvas)
        for i, name in enumerate(self.names):
            x = GAP + i * (self.panel_w + GAP)
            shown = picture(self.recording, self.maps, name, t).repeat(self.scale, 0).repeat(self.scale, 1)
            canvas.paste(Image.fromarray(shown), (x, HEAD))
            title = self.recording.game if name == "frame" else TITLES[name]
            draw.text((x, 8), title, fill=INK, font=self.large)
        top = HEAD + self.panel_h + GAP
        lanes: list[tuple[str, np.ndarray, tuple[int, int, int]]] = []
        if self.recording.points is not None:
            lanes.append(("score", self.score, INK))
        if self.recording.learnt is not None:
            lanes.insert(0, ("mega-reward", self.recording.learnt.mega_reward, AMBER))
            lanes.insert(1, ("sum of g", self.recording.learnt.g.sum(-1), TEAL))
        each = (self.width - GAP) // len(lanes)
        for i, (name, values, colour) in enumerate(lanes):
            self._lane(draw, (GAP + i * each, top, each - GAP, TRACE), name, values, t, colour)
        return np.asarray(canvas)

    def _lane(
        self,
        draw: "ImageDraw.ImageDraw",
        box: tuple[int, int, int, int],
        name: str,
        values: np.ndarray,
        t: int,
        colour: tuple[int, int, int],
    ) -> None:
        """The last steps of one trace, the current one at the right."""
        x, y, width, height = box
        low, high = min(0.0, float(np.quantile(values, 0.004))), max(0.0, float(np.quantile(values, 0.996)))
        span = (high - low) or 1.0
        foot, room = y + height - 4, height - 26
        steps = np.arange(max(0, t - WINDOW + 1), t + 1)
        across = x + width - (t - steps) * width / WINDOW
        up = foot - (values[steps].clip(low, high) - low) / span * room
        zero = foot + low / span * room
        draw.line([(x, zero), (x + width, zero)], fill=LINE)
        if name == "mega-reward":
            for place, tip in zip(across, up, strict=True):
                draw.line([(place, zero), (place, tip)], fill=colour, width=max(1, int(width / WINDOW * 0.8)))
        elif len(steps) > 1:
            draw.line(list(zip(across, up, strict=True)), fill=colour, width=2)
        draw.text((x, y), name, fill=FAINT, font=self.small)
        draw.text((x + 92, y), f"{values[t]:.4g}", fill=INK, font=self.small)


def _write_gif(images: Iterator[np.ndarray], samples: list[np.ndarray], path: Path) -> None:
    """One palette for all steps, computed from samples, with one entry left for "as before": unchanged pixels take no
    space."""
    from PIL import Image

    palette = Image.fromarray(np.concatenate(samples)).quantize(255, dither=Image.Dither.NONE)
    pictures = (Image.fromarray(image).quantize(palette=palette, dither=Image.Dither.NONE) for image in images)
    milliseconds = round(100 / STEPS_PER_SECOND) * 10  # GIF counts hundredths of a second
    next(pictures).save(path, save_all=True, append_images=pictures, duration=milliseconds, loop=0, optimize=True)


def _write_mp4(images: Iterator[np.ndarray], samples: list[np.ndarray], path: Path) -> None:
    height, width, _ = samples[0].shape
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(STEPS_PER_SECOND), "-i", "-"]
    coded = ["-c:v", "libx264", "-crf", "20", "-pix_fmt", "yuv420p", "-movflags", "+faststart"]
    command = [find_ffmpeg(path), "-y", "-loglevel", "error", *raw, *coded, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as encoder:
        assert encoder.stdin is not None
        assert encoder.stderr is not None
        try:
            for image in images:
                encoder.stdin.write(image.tobytes())
            encoder.stdin.close()
        except BrokenPipeError:
            pass  # ffmpeg gave up; it says why below
        complaint = encoder.stderr.read().decode(errors="replace").strip()
    if encoder.returncode:
        raise RunError(f"ffmpeg could not write {path}: {complaint or f'exit status {encoder.returncode}'}")
