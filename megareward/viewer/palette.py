"""The colours of control, once for page, clip, figure and report.

Both ramps rise evenly in brightness from near black to near white, so that they read the same in grey, in print and
without colour vision: amber is direct control, teal is accumulated control.
"""

import numpy as np

AMBER = ((13, 11, 16), (66, 36, 18), (134, 68, 8), (201, 112, 10), (245, 166, 40), (255, 222, 128))
TEAL = ((9, 12, 20), (12, 48, 66), (10, 92, 104), (22, 138, 138), (88, 190, 164), (178, 242, 208))


def ramp(stops: tuple[tuple[int, int, int], ...]) -> np.ndarray:
    """(256, 3) uint8: the colours between the stops."""
    places = np.linspace(0, 255, len(stops))
    channels = [np.interp(np.arange(256), places, channel) for channel in zip(*stops, strict=True)]
    return np.stack(channels, axis=-1).round().astype(np.uint8)


def brightness(colours: np.ndarray) -> np.ndarray:
    """Perceived lightness (CIE L*, 0 to 100) of (..., 3) uint8 colours."""
    linear = (colours / 255) ** 2.2
    luminance = linear @ np.array([0.2126, 0.7152, 0.0722])
    return np.where(luminance > 0.008856, 116 * np.cbrt(luminance) - 16, 903.3 * luminance)
