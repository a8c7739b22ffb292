"""Noise between a game and the agent: normal noise on every pixel (the paper's noisy TV), or a screen in a corner.

Each number is a hash of (environment's key, frames since `reset`, pixel), as in the mini games: it depends on the seed
alone, neither on groups of environments nor on the device, and nothing but two counters has to be saved.
"""

from collections import deque
from dataclasses import replace

import torch

from megareward.envs.interface import BatchedEnv, Step
from megareward.envs.mini.hashed_rng import WORD, environment_keys, mix
from megareward.envs.noise_config import NoiseConfig
from megareward.envs.wrapper import EnvWrapper
from megareward.types import Bool, Int, Tensor, UInt8

LEVELS = 2**16
"""Number of different noise values; half a word (16 bits) is needed for each."""
TV_ACTION = "TV"
"""Name of the action that switches the screen on."""


class NoisyScreen(EnvWrapper):
    """A game seen through noise. `clean` holds the newest frames without noise, for comparison."""

    def __init__(self, env: BatchedEnv, config: NoiseConfig) -> None:
        super().__init__(env)
        self.config, self.noise = config, Noise(config, env.frame_shape, env.device)
        self.has_action = config.tv == "action"
        self._start(seed=0)
        self.clean = torch.zeros(env.n_envs, *env.frame_shape, dtype=torch.uint8, device=env.device)

    @property
    def n_actions(self) -> int:
        return self.env.n_actions + self.has_action

    @property
    def action_names(self) -> tuple[str, ...]:
        return (*self.env.action_names, *([TV_ACTION] if self.has_action else []))

    def _start(self, seed: int) -> None:
        self.key = environment_keys(seed, self.n_envs, self.device)
        self.clock = torch.zeros_like(self.key)
        self._watching = deque([torch.zeros_like(self.key, dtype=torch.bool)])
        """Which environments take the action of the screen, for each step under way, in order."""

    def reset(self, seed: int) -> Step:
        self._start(seed)
        return super().reset(seed)

    def send(self, actions: Int[Tensor, "n"]) -> None:
        """Where the agent chooses to watch the screen, the game gets action 0, which does nothing in most games."""
        watching = actions == self.env.n_actions
        self._watching.append(watching)
        super().send(torch.where(watching, 0, actions) if self.has_action else actions)

    def change(self, step: Step, rows: slice) -> Step:
        self.clean[rows] = step.frames
        watching = self._watching.popleft() & ~step.first
        frames = self.noise.over(step.frames, self.key[rows], self.clock[rows], watching)
        self.clock[rows] += 1
        return replace(step, frames=frames)

    def own_state(self) -> dict[str, Tensor]:
        return {"key": self.key.clone(), "clock": self.clock.clone()}

    def load_own_state(self, state: dict[str, Tensor]) -> None:
        self.key, self.clock = (state[name].to(self.device, copy=True) for name in ("key", "clock"))
        self._watching.clear()


class Noise:
    """The noise on a frame, as a function of the environment's key and the number of the frame."""

    def __init__(self, config: NoiseConfig, frame_shape: tuple[int, int], device: torch.device) -> None:
        self.config, (self.px_h, self.px_w) = config, frame_shape
        # The normal distribution by its quantiles, in grey levels.
        share = (torch.arange(LEVELS, dtype=torch.float64) + 0.5) / LEVELS
        self.added = (torch.special.ndtri(share) * config.std * 255).round().to(torch.int16).to(device)
        side = (max(1, round(config.tv_side * side)) for side in frame_shape)
        self.tv_h, self.tv_w = side if config.tv != "none" else (0, 0)

    def over(
        self,
        frames: UInt8[Tensor, "n px_h px_w"],
        key: Int[Tensor, "n"],
        clock: Int[Tensor, "n"],
        watching: Bool[Tensor, "n"],
    ) -> UInt8[Tensor, "n px_h px_w"]:
        """The frames with noise. `watching`: whose screen in the corner is switched on, if that takes an action."""
        words = self._words(key, clock)  # (n, px_h, px_w), below LEVELS
        if self.config.std > 0:
            added = self.added.index_select(0, words.flatten()).view_as(words)
            frames = added.add_(frames).clamp_(0, 255).to(torch.uint8)
        if self.tv_h:
            tv = (words[:, : self.tv_h, : self.tv_w] >> 8).to(torch.uint8)
            frames = frames.clone()
            frames[:, : self.tv_h, : self.tv_w] = tv * watching[:, None, None] if self.config.tv == "action" else tv
        return frames

    def _words(self, key: Int[Tensor, "n"], clock: Int[Tensor, "n"]) -> Int[Tensor, "n px_h px_w"]:
        """Random numbers below LEVELS, two per 32-bit hash; made in int32, as a million are needed per step."""
        pairs = -(-self.px_h * self.px_w // 2)
        of_frame = mix(key ^ mix(clock & WORD)).to(torch.int32)
        hashes = mix_in_place(of_frame[:, None] + torch.arange(pairs, dtype=torch.int32, device=key.device))
        both = torch.cat([hashes, hashes >> 16], 1)[:, : self.px_h * self.px_w] & (LEVELS - 1)
        return both.view(-1, self.px_h, self.px_w)


def mix_in_place(word: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """`hashed_rng.mix` for int32, where products wrap and the sign has to be masked out after a shift."""
    for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
        word ^= (word >> shift) & (WORD >> shift)
        word *= factor
    word ^= (word >> 15) & (WORD >> 15)
    return word


def clean_frames(env: BatchedEnv, step: Step) -> UInt8[Tensor, "N px_h px_w"]:
    """The frames of the newest step of all environments as the game drew them."""
    return env.clean.clone() if isinstance(env, NoisyScreen) else step.frames
