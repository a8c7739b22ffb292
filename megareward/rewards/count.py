"""Count-based novelty: the more often similar frames have been seen, the smaller the reward of a frame.

`phi-eb` (Martin et al. 2017) turns the frequencies of a frame's features into a pseudo-count; `simhash` (Tang et al.
2017) counts a short hash of the frame. The numbers [count-1] ... are the deviations in docs/methods.md.
"""

from collections.abc import Callable, Mapping

import torch

from megareward.rewards.interface import RewardTerm
from megareward.rewards.networks import in_parts
from megareward.rewards.settings import CountConfig
from megareward.rollout import Recorded
from megareward.state import packed, part, unpacked_into
from megareward.statistics.normaliser import Normaliser
from megareward.types import Float, Int, Tensor, UInt8
from megareward.world import World

ROWS, COLUMNS, LEVELS = 8, 11, 8
"""What phi-EB sees of a frame: 8 x 11 patches, each in one of 8 grey levels: 704 binary features."""
HASHED_SIDE = 42
"""Pixels of the side of the frame that SimHash reads; smaller frames are read as they are."""
BUCKET_BITS = 22
"""SimHash counts in 2^22 buckets: always 16 MiB of memory; a checkpoint holds those that were seen."""
MULTIPLIER = -7046029254386353131
"""2^64 / golden ratio, as a signed number: multiplying by it spreads codes over the high bits (Knuth)."""


class Counting:
    """Frames become codes (indices into `counts`), which subclasses define; all environments share the counts."""

    def __init__(self, config: CountConfig, world: World, size: int) -> None:
        self.config, self.device = config, world.device
        self.counts = torch.zeros(size, dtype=torch.int32, device=world.device)
        self.seen = torch.zeros((), dtype=torch.int64, device=world.device)

    def codes(self, frames: UInt8[Tensor, "B px_h px_w"]) -> Int[Tensor, "B K"]:
        raise NotImplementedError

    def bonus(self, codes: Int[Tensor, "B K"]) -> Float[Tensor, "B"]:
        raise NotImplementedError

    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]:
        """The bonus of the frame that each transition leads to, by the counts before this rollout [count-1]."""
        bonus = in_parts(lambda frames: self.bonus(self.codes(frames)), recorded.frames[1:].flatten(0, 1))
        return self.config.beta * bonus.view(recorded.actions.shape)

    def update(self, recorded: Recorded) -> dict[str, Tensor]:
        codes = in_parts(self.codes, recorded.frames[1:].flatten(0, 1))  # (TN, K)
        one = recorded.real.flatten()[:, None].expand_as(codes).to(self.counts.dtype)  # resets are not counted
        self.counts.index_add_(0, codes.flatten(), one.flatten())
        self.seen = self.seen + recorded.real.sum()
        return self.metrics()

    def metrics(self) -> dict[str, Tensor]:
        return {"frames": self.seen, "codes": (self.counts > 0).sum()}

    def state_dict(self) -> dict[str, Tensor]:
        return packed(self.counts) | {"seen": self.seen.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        unpacked_into(self.counts, state)
        self.seen = state["seen"].to(self.device)


class PhiEB(Counting):
    """Features are counted one by one; their probabilities multiply to that of the frame, hence its pseudo-count."""

    def __init__(self, config: CountConfig, world: World) -> None:
        super().__init__(config, world, ROWS * COLUMNS * LEVELS)
        px_h, px_w = world.frame_shape
        self.over_rows = area_weights(ROWS, px_h).to(world.device)
        self.over_columns = area_weights(COLUMNS, px_w).to(world.device)
        self.others = 1 - torch.eye(LEVELS, dtype=torch.float64, device=world.device)
        self.starts = torch.arange(0, len(self.counts), LEVELS, device=world.device)  # (88,) first index of a patch

    def codes(self, frames: UInt8[Tensor, "B px_h px_w"]) -> Int[Tensor, "B 88"]:
        """The one feature of each patch that is on."""
        patches = self.over_rows @ frames.float() @ self.over_columns.T  # (B, 8, 11)
        level = patches.round().long() // (256 // LEVELS)  # whole greys first: rounding noise must not cross a level
        return self.starts + level.flatten(1)

    def bonus(self, codes: Int[Tensor, "B 88"]) -> Float[Tensor, "B"]:
        return (self.pseudo_count(codes) + 0.01).rsqrt().float()

    def pseudo_count(self, codes: Int[Tensor, "B 88"]) -> Float[Tensor, "B"]:
        """rho (1 - rho') / (rho' - rho), in float64 and without ever forming the two tiny products.

        rho is the probability of the frame by the Krichevsky-Trofimov estimate (n + 1/2) / (t + 1) of each feature's
        value, seen n times in t frames; rho' the same after one more visit. With d = log(rho' / rho) the count is
        (1 - rho') / expm1(d), and d is a sum of log1p((t - n + 1/2) / ((n + 1/2) (t + 2))) > 0.
        """
        t, on = self.seen.double(), self.counts.view(-1, LEVELS).double()  # (88, 8): how often each feature was on

        def over_features(term: Callable[[Tensor], Tensor]) -> Float[Tensor, "B"]:
            table = term(on) + term(t - on) @ self.others  # (88, 8) a patch's sum, by which one of its features is on
            return table.flatten()[codes].sum(-1)

        d = over_features(lambda n: torch.log1p((t - n + 0.5) / ((n + 0.5) * (t + 2))))
        log_rho_after = over_features(lambda n: torch.log((n + 1.5) / (t + 2)))
        return -torch.expm1(log_rho_after) / torch.expm1(d)


class SimHash(Counting):
    """k random hyperplanes: frames on the same side of all of them count as the same."""

    def __init__(self, config: CountConfig, world: World) -> None:
        super().__init__(config, world, 2**BUCKET_BITS)
        px_h, px_w = world.frame_shape
        rows, columns = min(HASHED_SIDE, px_h), min(HASHED_SIDE, px_w)
        self.over_rows = area_weights(rows, px_h).to(world.device)
        self.over_columns = area_weights(columns, px_w).to(world.device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(world.seed)
            self.planes = torch.randn(config.bits, rows * columns).to(world.device)
        self.powers = 1 << torch.arange(config.bits, device=world.device)  # (k,) the last of 64 is the sign
        self.normaliser = Normaliser("pixel", world.frame_shape, config.normalise_frames, world.device)

    def hashes(self, frames: UInt8[Tensor, "B px_h px_w"]) -> Int[Tensor, "B"]:
        """k bits in one int64."""
        small = self.over_rows @ self.normaliser(frames) @ self.over_columns.T  # (B, rows, columns)
        return ((small.flatten(1) @ self.planes.T > 0) * self.powers).sum(-1)

    def codes(self, frames: UInt8[Tensor, "B px_h px_w"]) -> Int[Tensor, "B 1"]:
        """The bucket of a hash; two hashes may share one [count-4]."""
        spread = self.hashes(frames) * MULTIPLIER  # modulo 2^64
        return ((spread >> (64 - BUCKET_BITS)) & (2**BUCKET_BITS - 1))[:, None]

    def bonus(self, codes: Int[Tensor, "B 1"]) -> Float[Tensor, "B"]:
        """1 / sqrt(visits), this one included: 1 for a new code."""
        return (self.counts[codes[:, 0]] + 1).float().rsqrt()

    def update(self, recorded: Recorded) -> dict[str, Tensor]:
        """Nothing is counted before the mean of each pixel is fixed: until then, hashes would change with it."""
        if self.normaliser.n_seen < self.config.normalise_frames:
            self.normaliser.observe(recorded.frames[1:][recorded.real])
            return self.metrics()
        return super().update(recorded)

    def state_dict(self) -> dict[str, Tensor]:
        scaling = {f"normaliser.{name}": tensor.clone() for name, tensor in self.normaliser.state_dict().items()}
        return super().state_dict() | scaling | {"planes": self.planes}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        super().load_state_dict(state)
        self.normaliser.load_state_dict(part(state, "normaliser"))
        self.planes.copy_(state["planes"])


def area_weights(n_out: int, n_in: int) -> Float[Tensor, "n_out n_in"]:
    """Row i holds the share of each input pixel in output pixel i: the mean over the area it covers, fractions too."""
    size = n_in / n_out
    start = torch.arange(n_out, dtype=torch.float64)[:, None] * size
    pixel = torch.arange(n_in, dtype=torch.float64)
    overlap = torch.minimum(start + size, pixel + 1) - torch.maximum(start, pixel)
    return (overlap.clamp(min=0) / size).float()


COUNTERS: dict[str, type[PhiEB] | type[SimHash]] = {"phi-eb": PhiEB, "simhash": SimHash}


def build(config: CountConfig, world: World) -> list[RewardTerm]:
    reward = COUNTERS[config.kind](config, world)
    return [RewardTerm(config.stream("count", world.episodic), reward)]
