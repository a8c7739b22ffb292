"""Random numbers without a generator: each is a hash of (environment's key, its clock, which draw of this step).

Nothing is ever consumed, so a copy of an environment sees the same random world whatever it does in it, and an
environment's numbers depend neither on its neighbours nor on the device. All arithmetic is on 32-bit words held
in int64, whose products stay below 2^63: no overflow, hence the same bits on every device.
"""

import torch

from megareward.types import Bool, Float, Int, Shaped, Tensor

WORD = 0xFFFFFFFF
"""Keeps the low 32 bits."""


def mix(word: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """A bijection of 32-bit words in which every output bit depends on every input bit (xor-shift and multiply)."""
    word = word ^ (word >> 16)
    word = (word * 0x21F0AAAD) & WORD
    word = word ^ (word >> 15)
    word = (word * 0x735A2D97) & WORD
    return word ^ (word >> 15)


def environment_keys(seed: int, n_envs: int, device: torch.device) -> Int[Tensor, "N"]:
    """One key per environment; key n depends on the seed and n only, and no two keys of a batch are equal."""
    low, high = (mix(torch.tensor(half & WORD, device=device)) for half in (seed, seed >> 32))
    return mix((torch.arange(n_envs, device=device) + mix(low ^ (high + 1))) & WORD)


def random_words(key: Int[Tensor, "N"], clock: Int[Tensor, "N"], first: int, count: int) -> Int[Tensor, "N count"]:
    """Words number `first` to `first + count` of this step, uniform in 0 .. 2^32 - 1."""
    index = torch.arange(first, first + count, device=key.device)
    return mix(key[:, None] ^ mix((mix(clock & WORD)[:, None] + index) & WORD))  # (N, count)


class Draws:
    """The random numbers a game may use in one step, by number: the same number gives the same value again."""

    COUNT = 8
    """Draws per environment and step; the words after them belong to the noisy TV."""

    def __init__(self, key: Int[Tensor, "N"], clock: Int[Tensor, "N"]) -> None:
        self.words = random_words(key, clock, 0, self.COUNT)  # (N, COUNT)

    def integer(self, number: int, below: int) -> Float[Tensor, "N"]:
        """A whole number 0 .. below - 1, as a float because positions and speeds are floats."""
        return ((self.words[:, number] * below) >> 32).float()

    def chance(self, number: int, probability: float) -> Bool[Tensor, "N"]:
        """True with this probability."""
        return self.words[:, number] < round(probability * 2**32)
