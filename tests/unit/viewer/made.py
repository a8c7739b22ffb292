"""Recordings made up for tests: every axis of a different size, every number known."""

from typing import Any

import numpy as np

from megareward.viewer.recording import Maps, Recording, RunMaps

T, H, W, PX_H, PX_W = 600, 3, 4, 24, 40
HW = H * W


def made(
    T: int = T, *, learnt: bool = True, truth: bool = False, size: tuple[int, int] = (PX_H, PX_W), **changes: Any
) -> Recording:
    """A square moves over noise that stands still; games of 200 steps; a point at every step that ends in 50."""
    random = np.random.default_rng(3)
    px_h, px_w = size
    frames = np.repeat(random.integers(0, 90, (1, px_h, px_w), dtype=np.uint8), T, 0)
    for t in range(T):
        y, x = t % (px_h - 4), (2 * t) % (px_w - 4)
        frames[t, y : y + 4, x : x + 4] = 255
    first = np.arange(T) % 200 == 0
    points = np.where(np.arange(T) % 100 == 50, np.where(np.arange(T) % 200 == 50, 2.0, -1.0), 0).astype(np.float32)
    maps = None
    if learnt:
        direct = random.dirichlet(np.full(HW, 0.3), T).astype(np.float32)
        g = np.minimum(1, direct + 0.3).astype(np.float32)
        relation = (random.dirichlet(np.full(HW, 0.2), (T, HW)) * 100).round().astype(np.uint8)
        for array in (direct, g, relation):
            array[first] = 0
        maps = RunMaps(direct, g, random.random(T).astype(np.float32) * 0.1, relation)
    settings: dict[str, Any] = {
        "game": "mini-pong",
        "method": "mega",
        "seed": 7,
        "frames_trained": 12345,
        "frame_skip": 1,
        "action_names": ("noop", "up", "down"),
        "H": H,
        "W": W,
        "frames": frames,
        "actions": (np.arange(T) % 3).astype(np.uint8),
        "first": first,
        "points": points,
        "learnt": maps,
        "truth": Maps((maps.direct > 0.3).astype(np.float32), maps.g * 0.5) if truth and maps else None,
    }
    return Recording(**(settings | changes))
