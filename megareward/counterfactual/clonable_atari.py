"""One Atari game that can be cloned, and whose frames equal the vector emulator's bit for bit.

The vector emulator (`envs.atari`) is fast but cannot be copied; ALE's plain interface can. What has to be repeated here
to get from one to the other, measured and checked by `tests/unit/audit/test_emulator.py`:

- the console's timer starts at random, by the seed, and anew at each reset: only the first episode of a seed is known
- an episode opens with FIRE, if the game knows this button and the protocol asks for it, then some frames without input
- a decision is held for `frame_skip` emulator frames; a frame is the brighter of the last two grey screens
- the screen is shrunk by averaging areas as OpenCV does it, in 32-bit floats, columns first, halves rounded to even

A restored state shows no screen until it is played on. Torch is not needed here: worker processes start faster.
"""

from typing import Any

import ale_py
import numpy as np
from ale_py import roms

from megareward.envs import score_masks
from megareward.envs.atari_config import AtariConfig


class Emulator:
    """One game under the protocol of `config`, without sticky actions unless `sticky` asks for them: a clone does not
    remember the last button."""

    def __init__(self, rom: str, config: AtariConfig, *, hide_score: bool, seed: int, sticky: float = 0.0) -> None:
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale = ale_py.ALEInterface()
        self.ale.setInt("random_seed", seed)
        self.ale.setFloat("repeat_action_probability", sticky)
        path = roms.get_rom_path(rom)
        assert path is not None, f"{rom} is no canonical name; resolve_game gives it"
        self.ale.loadROM(path)
        self.ale.reset_game()
        self._opening = self.clone(), self.ale.getScreenGrayscale()
        self.actions = self.ale.getLegalActionSet() if config.full_actions else self.ale.getMinimalActionSet()
        self.config = config
        rows, columns = self.ale.getScreenDims()
        self.shrink = Shrink((rows, columns), config.px)
        self._screens = np.zeros((2, rows, columns), np.uint8)
        self.reward = 0.0
        """Raw score gained by the last decision."""
        self._visible = np.ones((1, config.px, config.px), bool)
        kinds = {"score": hide_score, "lives": config.hide_lives, "other": config.hide_other}
        score_masks.paint(self._visible, score_masks.frame_boxes(rom, (config.px, config.px), **kinds))

    def start(self, n_noops: int) -> np.ndarray:
        """The first episode of this seed, after so many frames without input. Returns the screen."""
        state, screen = self._opening
        self.restore(state)
        return self._open(n_noops, screen)

    def start_another(self, n_noops: int) -> np.ndarray:
        """A further episode. The vector emulator would start it with another timer."""
        self.ale.reset_game()
        return self._open(n_noops, self.ale.getScreenGrayscale())

    def _open(self, n_noops: int, screen: np.ndarray) -> np.ndarray:
        frames_played = n_noops
        if self.config.fire_reset and ale_py.Action.FIRE in self.actions:
            self.ale.act(ale_py.Action.FIRE)
            frames_played += 1
        for _ in range(n_noops):
            self.ale.act(ale_py.Action.NOOP)
        return self.ale.getScreenGrayscale() if frames_played else screen

    def decide(self, action: int) -> tuple[np.ndarray, bool]:
        """One decision: the screen that the agent sees, in native pixels, and whether the game is over. If it is, the
        screen is not to be used: the vector emulator never shows it."""
        skip, self.reward = self.config.frame_skip, 0.0
        for frame in range(skip):
            self.reward += self.ale.act(self.actions[action])
            if frame >= skip - 2:
                self.ale.getScreenGrayscale(self._screens[frame % 2])
        return self._screens.max(0) if skip > 1 else self._screens[0].copy(), self.ale.game_over()

    def clone(self) -> Any:
        return self.ale.cloneState()

    def restore(self, state: Any) -> None:
        self.ale.restoreState(state)

    def frame(self, screen: np.ndarray) -> np.ndarray:
        """(px, px) as the agent sees it, score painted out."""
        return self.shrink(screen) * self._visible[0]

    def changed_pixels(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """(px, px) where the frames of two screens differ. Only what can differ is shrunk."""
        changed = np.zeros(self._visible.shape[1:], bool)
        differs = a != b
        rows, columns = differs.any(1).nonzero()[0], differs.any(0).nonzero()[0]
        if len(rows):
            box = self.shrink.reach(rows[0], rows[-1], columns[0], columns[-1])
            changed[box] = self.shrink(a, box) != self.shrink(b, box)
        return changed & self._visible[0]


class Shrink:
    """From the emulator's screen to a frame, by averaging areas."""

    def __init__(self, shape: tuple[int, int], px: int) -> None:
        self.taps = [taps(side, px) for side in shape]
        whole = slice(0, px)
        self.whole = (whole, whole)

    def __call__(self, screen: np.ndarray, box: tuple[slice, slice] | None = None) -> np.ndarray:
        """The frame, or the part of it in `box`. Sums run in OpenCV's order, so that they round as OpenCV's do."""
        in_rows, in_columns = box or self.whole
        (row, row_weight), (column, column_weight) = self.taps
        row, row_weight = row[:, in_rows], row_weight[:, in_rows, None]
        column, column_weight = column[:, in_columns], column_weight[:, in_columns]
        top, bottom = row.min(), row.max() + 1
        part = screen[top:bottom].astype(np.float32)
        across = sum_in_order(part[:, c] * w for c, w in zip(column, column_weight, strict=True))
        down = sum_in_order(across[r - top] * w for r, w in zip(row, row_weight, strict=True))
        return np.rint(down).astype(np.uint8)

    def reach(self, top: int, bottom: int, left: int, right: int) -> tuple[slice, slice]:
        """The pixels of a frame that the given rows and columns of the screen (ends included) can change."""
        return self._reach(0, top, bottom), self._reach(1, left, right)

    def _reach(self, axis: int, low: int, high: int) -> slice:
        source = self.taps[axis][0]  # (taps, px)
        touched = ((source.max(0) >= low) & (source.min(0) <= high)).nonzero()[0]
        return slice(touched[0], touched[-1] + 1)


def taps(n_in: int, n_out: int) -> tuple[np.ndarray, np.ndarray]:
    """Which inputs each output averages, and their weights: (taps, n_out) each; unused taps have weight 0."""
    scale = n_in / n_out
    lists: list[list[tuple[int, float]]] = []
    for out in range(n_out):
        low, high = out * scale, (out + 1) * scale
        width = min(scale, n_in - low)
        overlap = [(i, min(high, i + 1) - max(low, i)) for i in range(int(low), min(int(np.ceil(high)), n_in))]
        lists.append([(i, share / width) for i, share in overlap if share > 1e-3])
    longest = max(len(own) for own in lists)
    padded = [own + [(own[-1][0], 0.0)] * (longest - len(own)) for own in lists]
    index = np.array([[i for i, _ in own] for own in padded]).T
    return index, np.array([[weight for _, weight in own] for own in padded], np.float32).T


def sum_in_order(terms: Any) -> np.ndarray:
    """Like `sum`, which begins with 0 and would copy once more."""
    total = next(terms)
    for term in terms:
        total += term
    return total
