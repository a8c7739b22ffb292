"""Experiments of the paper's second half, play together with the score. Free of torch.

`noisy-tv`      novelty behind masks, beside noise: the score of O-RND falls with the noise, that of G-RND should not
`pretraining`   training on the score after play without it, against as much training from scratch (Eq. 13)

Each has a mini form, which two cores make in minutes to an hour.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from megareward.analysis.improvement import improvement_over_seeds
from megareward.envs.mini import TUNING_GAMES
from megareward.envs.noise_config import NoiseConfig
from megareward.experiments.plans import (
    HARD_GAMES,
    PAPER_GAMES,
    RANDOM_FRAMES,
    UNTRAINED,
    Cell,
    Change,
    Device,
    Experiment,
    atari,
    base_config,
    both,
    control,
    game,
    method,
    nothing_ends,
    random_play,
)
from megareward.training.config import TrainConfig

# Noise ---------------------------------------------------------------------------------------------------------------


def noise(**settings: Any) -> Change:
    """Play with this noise. Noise on every pixel changes most of the screen in every step, which is not a flash: the
    rule for flashes is off, with and without noise, so that only the noise differs."""

    def change(config: TrainConfig) -> TrainConfig:
        return control(latent={"flash": 1.0})(replace(config, noise=NoiseConfig(**settings)))

    return change


def masked(name: str) -> Change:
    """Train with this method in RND's own setting: novelty beside the score, with returns that no game end cuts."""
    return method(name, "many,rnd-paper")


MASKS = {"O-RND": "rnd", "G-RND": "g-rnd", "A-RND": "a-rnd", "M-RND": "m-rnd"}
NOVELTY_OF = {name: (f"{name}/novelty_inside", f"{name}/novelty_outside") for name in ("g-rnd", "a-rnd", "m-rnd")}
"""Metrics: the novelty of what the mask shows and of what it hides."""
STDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)

NOISE_STRENGTHS = Experiment(
    name="noisy-tv",
    question="How much noise do RND and RND behind a mask of control bear on MontezumaRevenge?",
    rows={name: masked(MASKS[name]) for name in ("O-RND", "G-RND")},
    columns={f"noise {std:g}": both(atari("montezuma_revenge"), noise(std=std)) for std in STDS},
    frames=20_000_000,
    seeds=1,
    whole_games=30,
    metrics=NOVELTY_OF["g-rnd"],
)

NOISE_HARD = Experiment(
    name="noisy-tv-hard",
    question="Which mask lets RND bear noise of STD 0.3 on the paper's games of hard exploration?",
    rows={name: masked(MASKS[name]) for name in MASKS},
    columns={name: both(atari(name), noise(std=0.3)) for name in HARD_GAMES},
    frames=20_000_000,
    seeds=1,
    whole_games=30,
    metrics=tuple(itertools.chain.from_iterable(NOVELTY_OF.values())),
)

MASKED = {name: method(row) for name, row in MASKS.items()} | {
    "G-RND, true maps": both(method("g-rnd"), control(oracle={"lags": 32}))
}
ENDS_COUNT = {"alive": method("alive"), **MASKED}
"""Where ends count, any novelty is a reward for survival, that of a TV too: two seeds show it."""
NOTHING_ENDS = {
    f"{name}, nothing ends": both(change, nothing_ends)
    for name, change in {**MASKED, "G-RND, untrained maps": both(method("g-rnd"), UNTRAINED)}.items()
}
"""RND's own rule for its novelty. Masks of untrained models show whether a mask must know what is controlled."""

NOISE_MINI = Experiment(
    name="noisy-tv-mini",
    question="Novelty alone, the score hidden, beside noise and a TV: which mask keeps what RND loses?",
    rows={"random": method("random"), **ENDS_COUNT, **NOTHING_ENDS},
    columns={
        f"{name}{words}": both(game(name), change)
        for name in ("mini-breakout", "mini-demon")
        for words, change in {
            "": noise(),
            " tv": noise(tv="always"),
            " noise 0.3": noise(std=0.3),
        }.items()
    },
    frames=100_000,
    seeds=5,
    seeds_of=dict.fromkeys(ENDS_COUNT, 2),
    metrics=NOVELTY_OF["g-rnd"],
    is_long=True,
)

# Pretraining ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pretraining(Experiment):
    """Every run is trained on the score for `frames`; some begin with as many frames without it."""

    pretrained_by: Mapping[str, Change] = field(default_factory=dict)
    """Rows that start from another run, and the change that makes that run."""

    def _cell(self, row: str, column: str, seed: int, frames: int | None = None, device: Device = "cpu") -> Cell:
        cell = super()._cell(row, column, seed, frames, device)
        if row not in self.pretrained_by:
            return cell
        config = self.columns[column](base_config(seed, frames or self.frames, device))
        before = Cell(f"{row}, pretraining", column, self.pretrained_by[row](config))
        return replace(cell, before=before, config=replace(cell.config, start_from=before.name))

    def remarks(self, scores: Mapping[tuple[str, str], list[float]]) -> list[str]:
        """S_Improve (Eq. 13) of every row against `scratch`, from the recorded random play."""
        compared = [row for row in self.rows if row not in ("random", "scratch")]

        def shown(row: str, column: str) -> str:
            needed = [scores.get((name, column)) for name in (row, "scratch", "random")]
            if not all(needed):
                return "-"
            own, scratch, random = (found or [] for found in needed)
            mean, spread = improvement_over_seeds(own, scratch, sum(random) / len(random))
            if mean is None:
                return "scratch is no better than random play"
            return f"{mean:.0f}%" + (f" [{spread[0]:.0f}, {spread[1]:.0f}]" if spread else "")

        return [
            f"| S_Improve (Eq. 13) | {' | '.join(self.columns)} |",
            "|---" * (len(self.columns) + 1) + "|",
            *(f"| {row} | {' | '.join(shown(row, column) for column in self.columns)} |" for row in compared),
            "",
            "100% is what as many frames on the score alone achieve.",
            "",
        ]


def twice_as_long(config: TrainConfig) -> TrainConfig:
    return replace(config, frames=2 * config.frames)


def random_play_first(config: TrainConfig) -> TrainConfig:
    """As many frames of random play, from which only models learn, before as many on the score."""
    return replace(twice_as_long(config), warmup_steps=config.frames // config.env.frame_skip)


ON_THE_SCORE = {
    "random": method("random"),
    "scratch": method("extrinsic"),
    "scratch, twice as long": both(method("extrinsic"), twice_as_long),
    "after mega": method("extrinsic"),
    "after rnd": method("extrinsic"),
    "after alive": method("extrinsic"),
    "world model": method("world-model"),
    "morel": both(method("morel"), random_play_first),
    "oomdp": both(method("oomdp"), random_play_first),
}
"""The rows. Controls are as many frames in all, but all on the score, and pretraining on survival alone."""
WITHOUT_IT = {
    "after mega": method("mega"),
    "after rnd": method("rnd"),
    "after alive": method("alive"),
    "world model": method("world"),
}


def short_warmup(config: TrainConfig) -> TrainConfig:
    """Random play for a tenth of a short budget, so that the policy has time to learn."""
    return replace(config, warmup_steps=min(config.warmup_steps, config.frames // 10))


PRETRAINING = Pretraining(
    name="pretraining",
    question="What is play without the score worth to training on it, on the paper's 18 games?",
    rows=ON_THE_SCORE | {"random": random_play},
    columns={name: atari(name) for name in PAPER_GAMES},
    pretrained_by=WITHOUT_IT,
    frames=10_000_000,
    frames_of={"random": RANDOM_FRAMES},
    seeds=1,
    is_long=True,
)

PRETRAINING_MINI = Pretraining(
    name="pretraining-mini",
    question="What is play without the score worth to training on it, on the mini games?",
    rows=ON_THE_SCORE,
    columns={name: game(name) for name in TUNING_GAMES},
    pretrained_by={row: both(change, short_warmup) for row, change in WITHOUT_IT.items()},
    frames=50_000,
    seeds=5,
    is_long=True,
)

ALL = (NOISE_STRENGTHS, NOISE_HARD, NOISE_MINI, PRETRAINING, PRETRAINING_MINI)
