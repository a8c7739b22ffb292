"""A frame with a map laid over it: the same picture in the clip, the figure and, in JavaScript, the page."""

import numpy as np

from megareward.viewer import palette
from megareward.viewer.recording import Recording

RAMPS = {"direct": palette.ramp(palette.AMBER), "g": palette.ramp(palette.TEAL)}
TITLES = {
    "direct": "direct control",
    "g": "accumulated control g",
    "true_direct": "true direct control",
    "true_g": "true g",
}


def overlay(frame: np.ndarray, values: np.ndarray, H: int, W: int, colours: np.ndarray) -> np.ndarray:
    """(px_h, px_w, 3) uint8: cells coloured by `values` (HW,) in [0, 1], the game (px_h, px_w) visible through them.

    Pixels that differ from the frame's most common grey lighten a dark cell and darken a light one, so the background
    shows the map's own colour and shapes stay visible on every colour.
    """
    px_h, px_w = frame.shape
    cells = colours[(values.clip(0, 1) * 255).round().astype(int)].reshape(H, W, 3)
    base = cells.repeat(px_h // H, 0).repeat(px_w // W, 1).astype(np.float32)  # (px_h, px_w, 3)
    light = (base @ np.array([1, 2, 1]) > 560)[..., None]
    share = contrast(frame)[..., None]
    mixed = np.where(light, base * (1 - 0.5 * share), base + (255 - base) * 0.45 * share)
    return mixed.round().astype(np.uint8)


def contrast(frame: np.ndarray) -> np.ndarray:
    """(px_h, px_w) in [0, 1]: how far each pixel is from the frame's most common grey. The root lifts faint shapes."""
    ground = int(np.bincount(frame.ravel(), minlength=256).argmax())
    return np.sqrt(np.abs(frame.astype(np.float32) - ground) / max(ground, 255 - ground))


def grey(frame: np.ndarray) -> np.ndarray:
    """(px_h, px_w, 3)."""
    return frame[..., None].repeat(3, -1)


def maps_of(recording: Recording) -> dict[str, np.ndarray]:
    """Every map the recording has, (T, HW) in [0, 1]: divided by its maximum where that is above 1."""
    found: dict[str, np.ndarray] = {}
    if recording.learnt is not None:
        found |= {"direct": recording.learnt.direct, "g": recording.learnt.g}
    if recording.truth is not None:
        found |= {"true_direct": recording.truth.direct, "true_g": recording.truth.g}
    return {name: np.nan_to_num(m) / ceiling(m) for name, m in found.items()}


def ceiling(values: np.ndarray) -> float:
    """Value at the end of the colour ramp: 1, unless g exceeds it (unclipped it may reach 1 / (1 - rho))."""
    return max(1.0, float(np.nanmax(values, initial=0.0)))


def picture(recording: Recording, maps: dict[str, np.ndarray], name: str, t: int) -> np.ndarray:
    """(px_h, px_w, 3) of frame t, plain (name 'frame') or under one of its maps."""
    if name == "frame":
        return grey(recording.frames[t])
    colours = RAMPS[name.removeprefix("true_")]
    return overlay(recording.frames[t], maps[name][t], recording.H, recording.W, colours)
