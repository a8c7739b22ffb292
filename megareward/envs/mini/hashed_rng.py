"""Random numbers without a generator: each is a hash of (environment's key, its clock, which number of this step).

Nothing is ever consumed, so a copy of an environment sees the same random world whatever it does in it, and an
environment's numbers depend neither on its neighbours nor on the device. All arithmetic is on 32-bit words held
in int64, whose products stay below 2^63: no overflow, hence the same bits on every device.
"""

from collections.abc import Mapping

import torch

from megareward.types import Float, Int, Shaped, Tensor

WORD = 0xFFFFFFFF
"""Keeps the low 32 bits."""
WORDS_PER_STEP = 64
"""Words of one step; the first belong to the game's rules, the last to the noisy TV."""

Draws = dict[str, Float[Tensor, "N"]]
"""The random numbers of one step, by name: whole numbers from 0, as floats because positions and speeds are floats."""


def mix(word: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """A bijection of 32-bit words in which every output bit depends on every input bit (xor-shift and multiply)."""
    word = ((word ^ (word >> 16)) * 0x21F0AAAD) & WORD
    word = ((word ^ (word >> 15)) * 0x735A2D97) & WORD
    return word ^ (word >> 15)


def environment_keys(seed: int, n_envs: int, device: torch.device) -> Int[Tensor, "N"]:
    """One key per environment; key n depends on the seed and n only, and no two keys of a batch are equal."""
    low, high = (mix(torch.tensor(half & WORD, device=device)) for half in (seed, seed >> 32))
    return mix((torch.arange(n_envs, device=device) + mix(low ^ (high + 1 & WORD))) & WORD)


def random_words(
    key: Int[Tensor, "N"], clock: Int[Tensor, "N"], numbers: Int[Tensor, "count"]
) -> Int[Tensor, "N count"]:
    """These numbers of this step's words, each uniform in 0 .. 2^32 - 1."""
    moment = (clock * WORDS_PER_STEP)[:, None] + numbers
    return mix(key[:, None] ^ mix(moment & WORD))


class HashedRandom:
    """A game's random numbers: name and how many values each can take. All are drawn at every step, used or not."""

    def __init__(self, ranges: Mapping[str, int], device: torch.device) -> None:
        self.names = tuple(ranges)
        self.ranges = torch.tensor(list(ranges.values()), device=device)
        self.numbers = torch.arange(len(ranges), device=device)

    def draw(self, key: Int[Tensor, "N"], clock: Int[Tensor, "N"]) -> Draws:
        """Each uniform in 0 .. range - 1."""
        words = random_words(key, clock, self.numbers)  # (N, names)
        draws = ((words * self.ranges) >> 32).float()
        return dict(zip(self.names, draws.unbind(1), strict=True))
