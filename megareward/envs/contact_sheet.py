"""One picture of every game beside what its score boxes cover, so that a person can check the masks at a glance."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from megareward.envs import score_masks
from megareward.envs.games import atari_games, title
from megareward.envs.score_masks import Box
from megareward.errors import UsageError

STRETCH = 2
"""Pixels of an Atari were about twice as wide as high; drawn so, digits can be read without more magnification."""
PAIRS_PER_ROW = 6
GAP, CAPTION, HEADER = 12, 20, 64
"""Pixels between tiles, for the name above a tile, and for the legend on top."""

BACKGROUND, TEXT, FAINT = (24, 24, 27), (235, 235, 235), (130, 130, 135)
COLOURS = {"score": (255, 64, 64), "lives": (70, 220, 100), "other": (80, 160, 255)}
LEGEND = {
    "score": "score: always painted out under the play protocol",
    "lives": "lives: painted out with --env.hide-lives",
    "other": "other counters: painted out with --env.hide-other",
}


def draw_contact_sheet(
    path: Path | str,
    *,
    games: Sequence[str] | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> None:
    """Write a PNG that shows each game twice: as drawn by the emulator, and with its boxes.

    `games` are ROM names, all by default (a minute on one core). `progress(done, of)` is called after each.
    Play is random but seeded, so the picture is always the same.
    """
    if not Path(path).parent.is_dir():  # checked before a minute of work, not after
        raise UsageError(f"The folder of {path} does not exist; create it or choose another place for the picture.")
    if games is None:  # those with boxes first: they are what there is to check
        games = sorted(atari_games(), key=lambda rom: score_masks.score_display(rom) == "unknown")
    tiles = []
    for done, rom in enumerate(games, start=1):
        tiles.append(_tile(rom))
        progress(done, len(games))
    _sheet(tiles).quantize(255, dither=Image.Dither.NONE).save(path, format="PNG", optimize=True)


def random_screen(rom: str, decisions: int = 300, seed: int = 0) -> np.ndarray:
    """(rows, columns, 3) colours after some seconds of random play: the brighter of two screens, against flicker."""
    from ale_py import ALEInterface, LoggerMode, roms

    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setInt("random_seed", seed)
    ale.setFloat("repeat_action_probability", 0.0)
    rom_file = roms.get_rom_path(rom)
    if rom_file is None:
        raise UsageError(f"ale-py has no ROM called {rom!r}; resolve_game knows other spellings.")
    ale.loadROM(rom_file)
    ale.reset_game()
    actions, rng = ale.getMinimalActionSet(), np.random.default_rng(seed)
    for action in rng.integers(len(actions), size=decisions):
        if ale.game_over():
            ale.reset_game()
        for _ in range(3):
            ale.act(actions[action])
        before = ale.getScreenRGB()
        ale.act(actions[action])
    return np.maximum(before, ale.getScreenRGB())


def _tile(rom: str) -> Image.Image:
    screen = random_screen(rom)
    rows, columns, _ = screen.shape
    plain = Image.fromarray(screen).resize((columns * STRETCH, rows), Image.Resampling.NEAREST)
    tile = Image.new("RGB", (2 * plain.width + GAP // 2, CAPTION + rows), BACKGROUND)
    _write(tile, (0, 0), title(rom), TEXT, size=14)
    tile.paste(plain, (0, CAPTION))
    tile.paste(_with_boxes(plain, rom), (plain.width + GAP // 2, CAPTION))
    return tile


def _with_boxes(plain: Image.Image, rom: str) -> Image.Image:
    """The score blackened as the agent sees it, and every kind of box outlined in its colour."""
    boxed = plain.copy()
    known = score_masks.game_screen(rom)
    if known is None:
        boxed = Image.blend(boxed, Image.new("RGB", boxed.size, BACKGROUND), 0.7)
        _write(boxed, (boxed.width // 2, boxed.height // 2), "no box", TEXT, size=28, anchor="mm")
        return boxed
    draw = ImageDraw.Draw(boxed)
    for box in known.score:
        draw.rectangle(_corners(box), fill=(0, 0, 0))
    kinds: dict[str, Iterable[Box]] = {"other": known.other.values(), "lives": known.lives, "score": known.score}
    for kind, boxes in kinds.items():
        for box in boxes:
            draw.rectangle(_corners(box, margin=2), outline=COLOURS[kind], width=2)
    if not known.score:
        _write(boxed, (boxed.width // 2, boxed.height // 2), "no score shown", COLOURS["score"], size=28, anchor="mm")
    return boxed


def _corners(box: Box, margin: int = 0) -> tuple[int, int, int, int]:
    """First and last pixel of a box on a stretched screen; PIL's rectangles include both."""
    return (
        box.x * STRETCH - margin,
        box.y - margin,
        (box.x + box.w) * STRETCH - 1 + margin,
        box.y + box.h - 1 + margin,
    )


def _sheet(tiles: list[Image.Image]) -> Image.Image:
    """All tiles in rows under a legend. Rows are as high as their highest tile."""
    rows = [tiles[i : i + PAIRS_PER_ROW] for i in range(0, len(tiles), PAIRS_PER_ROW)]
    heights = [max(tile.height for tile in row) for row in rows]
    width = max((sum(tile.width + 2 * GAP for tile in row) for row in rows), default=0)
    sheet = Image.new("RGB", (max(width, 640), HEADER + sum(heights) + 2 * GAP * len(rows)), BACKGROUND)
    _draw_legend(sheet)
    y = HEADER
    for row, height in zip(rows, heights, strict=True):
        x = GAP
        for tile in row:
            sheet.paste(tile, (x, y))
            x += tile.width + 2 * GAP
        y += height + 2 * GAP
    return sheet


def _draw_legend(sheet: Image.Image) -> None:
    _write(sheet, (GAP, 8), "Left: what the game draws. Right: the same screen with its measured boxes.", TEXT, size=16)
    x = GAP
    for kind, meaning in LEGEND.items():
        ImageDraw.Draw(sheet).rectangle((x, 38, x + 20, 50), outline=COLOURS[kind], width=2)
        x += 28 + _write(sheet, (x + 28, 36), meaning, FAINT, size=14) + 2 * GAP


def _write(
    image: Image.Image,
    at: tuple[int, int],
    words: str,
    colour: tuple[int, int, int],
    *,
    size: int,
    anchor: str = "la",
) -> int:
    """Write words and return their width in pixels."""
    font = ImageFont.load_default(size)
    ImageDraw.Draw(image).text(at, words, fill=colour, font=font, anchor=anchor)
    return round(font.getlength(words))
