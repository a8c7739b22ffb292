"""Where games draw their score, and how to paint it out, so that an agent cannot read its reward off the screen.

The boxes are measured facts, kept as data in `data/score_boxes.json`; its header says how they were found.
This module needs neither torch nor ale-py.
"""

import functools
import json
from collections.abc import Iterable
from importlib import resources
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from megareward.errors import UsageError


class Box(NamedTuple):
    """A rectangle on the emulator's own screen, in native pixels; y counts down from the top."""

    x: int
    y: int
    w: int
    h: int


class FrameBox(NamedTuple):
    """A rectangle of frame pixels: columns x0..x1 and rows y0..y1, the ends excluded."""

    x0: int
    y0: int
    x1: int
    y1: int


class GameScreen(NamedTuple):
    """What is known about the screen of one game."""

    shape: tuple[int, int]
    """(rows, columns) in native pixels; most games have 210 rows, AirRaid has 250."""
    score: tuple[Box, ...]
    """Empty if the game draws no score during play."""
    lives: tuple[Box, ...]
    other: dict[str, Box]
    """Clocks, fuel, ammunition and the like, by name."""
    source: str
    note: str


@runtime_checkable
class Frames(Protocol):
    """Frames (..., px_h, px_w): a numpy array or a tensor on any device."""

    def __setitem__(self, index: Any, value: Any) -> None: ...


def game_screen(rom: str) -> GameScreen | None:
    """All that was measured about a game's screen, or None if nobody has measured it."""
    return _screens().get(rom)


def score_display(rom: str) -> Literal["box", "not shown", "unknown"]:
    """Whether the score can be painted out, is never drawn during play, or was never measured."""
    screen = game_screen(rom)
    if screen is None:
        return "unknown"
    return "box" if screen.score else "not shown"


def boxes(rom: str, *, score: bool = True, lives: bool = False, other: bool = False) -> list[Box]:
    """The boxes of what is asked for; none for a game never measured (see `score_display`)."""
    screen = game_screen(rom)
    if screen is None:
        return []
    kinds = ((score, screen.score), (lives, screen.lives), (other, screen.other.values()))
    return [box for wanted, kind in kinds if wanted for box in kind]


def to_frame(box: Box, screen_shape: tuple[int, int], frame_shape: tuple[int, int] = (84, 84)) -> FrameBox:
    """The frame pixels a native box can reach once the whole screen is shrunk to a frame by averaging areas.

    Rounded outwards: a frame pixel that holds any share of the box is inside. Whole-number arithmetic, so exact.
    """
    (rows, columns), (px_h, px_w) = screen_shape, frame_shape
    return FrameBox(
        x0=box.x * px_w // columns,
        y0=box.y * px_h // rows,
        x1=-(-(box.x + box.w) * px_w // columns),  # -(-a // b) rounds up
        y1=-(-(box.y + box.h) * px_h // rows),
    )


def frame_boxes(rom: str, frame_shape: tuple[int, int] = (84, 84), **kinds: bool) -> list[FrameBox]:
    """`boxes` in pixels of a frame; `kinds` are its `score`, `lives` and `other`."""
    screen = game_screen(rom)
    return [to_frame(box, screen.shape, frame_shape) for box in boxes(rom, **kinds)] if screen else []


def paint(frames: Frames, painted: Iterable[FrameBox]) -> None:
    """Overwrite the boxes with 0 in every frame, in place."""
    for box in painted:
        frames[..., box.y0 : box.y1, box.x0 : box.x1] = 0


def require_boxes(rom: str, allow_visible_score: bool) -> None:
    """Refuse a game whose score box was never measured, unless the user accepts a visible score."""
    if score_display(rom) == "unknown" and not allow_visible_score:
        raise UsageError(
            f"The score of {rom} would be visible to the agent: its place on the screen was never measured. "
            "Choose a game that has a score box (megareward games), or accept this with --env.allow-visible-score."
        )


@functools.cache
def _screens() -> dict[str, GameScreen]:
    data = json.loads(resources.files("megareward.envs").joinpath("data/score_boxes.json").read_text())
    return {
        rom: GameScreen(
            shape=tuple(game["screen"]),
            score=tuple(Box(*box) for box in game["score"]),
            lives=tuple(Box(*box) for box in game["lives"]),
            other={name: Box(*box) for name, box in game["other"].items()},
            source=game["source"],
            note=game["note"],
        )
        for rom, game in data["games"].items()
    }
