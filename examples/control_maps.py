"""Maps of somebody else for `megareward audit --maps examples.control_maps:NAME --game GAME`: two that know nothing of
actions. A function gets one episode and returns a map: a value per cell, or per pixel, of every frame."""

import numpy as np


def frame_difference(frames: np.ndarray, actions: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """Saliency as (T + 1, px_h, px_w): how much each pixel changed in the last step."""
    changes = np.abs(np.diff(frames.astype(np.float32), axis=0))
    return np.concatenate([np.zeros_like(changes[:1]), changes])


def motion_mask(frames: np.ndarray, actions: np.ndarray, grid: tuple[int, int]) -> dict[str, np.ndarray]:
    """Whatever moves is controlled: as direct control the cells that changed in this step, as g those that ever did."""
    H, W = grid
    (n, px_h, px_w), changed = frames.shape, frames[1:] != frames[:-1]
    cells = changed.reshape(n - 1, H, px_h // H, W, px_w // W).any((2, 4))  # (T, H, W)
    now = np.concatenate([np.zeros_like(cells[:1]), cells])
    return {"direct": now, "g": np.logical_or.accumulate(now)}
