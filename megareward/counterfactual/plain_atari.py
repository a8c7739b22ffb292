"""Atari games on ALE's plain interface, whose memory can be read: the number of the room that an agent is in, say.

For measures after training alone; no agent sees the memory. The vector emulator (`envs.atari`) is several times as fast
and shows the same frames by the same protocol. The first episode of a seed is the same on both
(`tests/unit/counterfactual/test_plain_atari.py`), later ones start with other timers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from megareward.counterfactual.clonable_atari import Emulator
from megareward.envs.atari import Atari
from megareward.envs.atari_config import AtariConfig
from megareward.types import UInt8


class PlainGame:
    """One game, episode after episode, as one environment of the vector emulator plays it."""

    def __init__(self, rom: str, config: AtariConfig, seed: int) -> None:
        self.emulator = Emulator(rom, config, hide_score=False, seed=seed, sticky=config.sticky)
        self.rng, self.max_frames = np.random.default_rng(seed), config.max_frames
        self.shown = self._begin(self.emulator.start)

    def _begin(self, start: Any) -> np.ndarray:
        noops = self.emulator.config.noop_max
        screen = start(int(self.rng.integers(noops)) if noops else 0)
        self.frames_played, self.over = 0, False
        return self.emulator.frame(screen)

    def step(self, action: int) -> tuple[float, bool, bool]:
        """Reward, terminated, truncated. After the last frame of an episode the action is ignored, and the next begins.
        The frame in which a game ends is never drawn: the one before it stays."""
        if self.over:
            self.shown = self._begin(self.emulator.start_another)
            return 0.0, False, False
        screen, terminated = self.emulator.decide(action)
        self.frames_played += self.emulator.config.frame_skip
        truncated = self.frames_played >= self.max_frames and not terminated
        self.over = terminated or truncated
        if not terminated:
            self.shown = self.emulator.frame(screen)
        return self.emulator.reward, terminated, truncated


class PlainEmulators:
    """In place of ale-py's vector emulator: what `Atari` uses of it."""

    def __init__(self, rom: str, n_envs: int, config: AtariConfig) -> None:
        self.rom, self.config, self.ale = rom, config, self
        self.games: list[PlainGame] = []
        self.actions = Emulator(rom, config, hide_score=False, seed=0).actions
        self._answers: list[tuple[float, bool, bool]] = []

    def get_action_set(self) -> Sequence[Any]:
        return self.actions

    def reset(self, seed: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        self.games = [PlainGame(self.rom, self.config, int(own)) for own in seed]
        return self._frames(), self._info()

    def send(self, actions: Sequence[int], _paddles: Sequence[float]) -> None:
        self._answers = [game.step(action) for game, action in zip(self.games, actions, strict=True)]

    def recv(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        rewards, terminated, truncated = map(np.array, zip(*self._answers, strict=True))
        return self._frames(), rewards, terminated, truncated, self._info()

    def _frames(self) -> np.ndarray:
        return np.stack([game.shown for game in self.games])[:, None]

    def _info(self) -> dict[str, np.ndarray]:
        return {"lives": np.array([game.emulator.ale.lives() for game in self.games])}


class PlainAtari(Atari):
    """N copies of one game whose memory can be read."""

    _emulator: PlainEmulators

    def _build(self, rom: str, n_envs: int, config: AtariConfig) -> PlainEmulators:
        return PlainEmulators(rom, n_envs, config)

    @property
    def memory(self) -> UInt8[np.ndarray, "N 128"]:
        """The console's 128 bytes, of the newest frame."""
        return np.stack([game.emulator.ale.getRAM() for game in self._emulator.games])
