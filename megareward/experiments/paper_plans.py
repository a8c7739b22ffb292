"""The runs behind the paper's tables and figures, at four scales. `megareward.paper` says which item needs which.

A name ends in its scale: `-smoke` is mini games for a few thousand frames, to see that everything works; `-mini` is
mini games at the length at which they are learnt; `-10M` and `-80M` are Atari, an eighth of the paper's frames and all
of them. Runs of the same settings are made once, whatever table they were made for.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from megareward.envs.mini import MINI_GAMES
from megareward.experiments.plans import (
    ALL_ALIKE,
    AS_PRINTED,
    BY_INFORMATION,
    EXPERIMENTS,
    GROWTH,
    OF_THINGS,
    PAPER_GAMES,
    RANDOM_FRAMES,
    Change,
    Experiment,
    atari,
    both,
    control,
    game,
    long_atari,
    method,
    only_watch,
    random_play,
)
from megareward.experiments.with_score import (
    MASKS,
    NOISE_HARD,
    NOISE_MINI,
    NOISE_STRENGTHS,
    PRETRAINING,
    PRETRAINING_MINI,
    STDS,
    noise,
)
from megareward.training.config import TrainConfig

PAPER_FRAMES = 80_000_000
SMOKE_FRAMES = 4_096
SMOKE_GAMES = ("mini-breakout", "mini-road")
"""One that was tuned on and one that was not."""


def smoke(config: TrainConfig) -> TrainConfig:
    """Few environments and a short warm-up, so that a few thousand frames hold some learning too."""
    models = replace(config.control, normalise_frames=512, background_frames=1_024)
    return replace(config, n_envs=16, rollout_steps=32, warmup_steps=1_024, control=models)


def for_smoke(rows: Mapping[str, Change]) -> dict[str, Change]:
    """The rows with `smoke` applied after the presets of their methods."""
    return {row: both(change, smoke) for row, change in rows.items()}


def short_game(name: str, **extras: Any) -> Change:
    """Games short enough for a few thousand frames to hold some whole ones."""
    return game(name, max_steps=120, **extras)


def at_all_scales(
    name: str,
    question: str,
    rows: dict[str, Change],
    games: tuple[str, ...],
    mini_games: tuple[str, ...] = tuple(MINI_GAMES),
    smoke_games: tuple[str, ...] = SMOKE_GAMES,
    smoke_seeds: int = 1,
) -> dict[str, Experiment]:
    """The same rows on mini games and on Atari games, by scale."""
    on_atari = rows | ({"random": random_play} if "random" in rows else {})
    scales = (
        ("smoke", for_smoke(rows), {one: short_game(one) for one in smoke_games}, SMOKE_FRAMES, smoke_seeds),
        ("mini", rows, {one: game(one) for one in mini_games}, 150_000, 5),
        ("10M", on_atari, {one: atari(one) for one in games}, 10_000_000, 1),
        ("80M", on_atari, {one: long_atari(one) for one in games}, PAPER_FRAMES, 3),
    )
    return {
        scale: Experiment(
            f"paper-{name}-{scale}",
            *(question, own, columns, frames, seeds),
            frames_of={"random": RANDOM_FRAMES} if own is on_atari else {},
        )
        for scale, own, columns, frames, seeds in scales
    }


def only(experiments: dict[str, Experiment], name: str, rows: tuple[str, ...]) -> dict[str, Experiment]:
    """A table of some rows of another one, with the same runs."""
    return {
        scale: replace(one, name=f"paper-{name}-{scale}", rows={row: one.rows[row] for row in rows})
        for scale, one in experiments.items()
    }


# Play ----------------------------------------------------------------------------------------------------------------

BASELINES = ("emp", "curiosity", "rnd", "sto", "div", "dir")
"""In the order of the paper's table."""

PLAY = at_all_scales(
    "play",
    "Which reward leads to play, with the score hidden from all but `extrinsic`?",
    {name: method(name) for name in ("random", "alive", *BASELINES, "mega", "extrinsic")},
    PAPER_GAMES,
    smoke_seeds=2,
)
MORE = at_all_scales(
    "more-baselines",
    "How does count-based novelty play?",
    {name: method(name) for name in ("random", "count", "mega")},
    PAPER_GAMES,
)
AGAINST_SCORE = only(PLAY, "ex-ppo", ("random", "mega", "extrinsic"))
AGAINST_HUMANS = only(PLAY, "human", ("random", "mega"))
RUNNING_TIME = {
    scale: replace(one, columns={column: one.columns[column]}, seeds=1)
    for (scale, one), column in zip(
        only(PLAY, "running-time", (*BASELINES, "mega", "extrinsic")).items(),
        ("mini-breakout", "mini-breakout", "seaquest", "seaquest"),
        strict=True,
    )
}
CASE_STUDY = at_all_scales(
    "case-study",
    "What does a trained agent control, frame by frame?",
    {"mega": method("mega")},
    ("pong",),
    mini_games=("mini-pong",),
    smoke_games=("mini-pong",),
)

# Ablations -----------------------------------------------------------------------------------------------------------

COMPONENTS = at_all_scales(
    "components",
    "What is each component of mega-reward worth?",
    {
        "random": method("random"),
        "mega": method("mega"),
        "without latent control": method("mega-direct"),
        "count bonus on g": method("mega-count"),
    },
    PAPER_GAMES,
)


def grid(side: int) -> Change:
    """A grid of side x side cells, with local relations: pairs grow with its fourth power, to 20,736 for 12 x 12."""
    return both(method("mega"), control(H=side, W=side, rtm={"model": "local"}))


def grids(*sides: int) -> dict[str, Change]:
    return {f"{side}x{side}": grid(side) for side in sides}


GRID = {
    scale: replace(one, rows=own)
    for (scale, one), own in zip(
        at_all_scales(
            "grid", "How fine should the grid be?", {}, ("breakout",), ("mini-breakout",), ("mini-breakout",)
        ).items(),
        (
            for_smoke(grids(2, 4, 8)),
            grids(2, 4, 8),
            grids(2, 3, 4, 6, 7, 12),
            grids(2, 3, 4, 6, 7, 12),
        ),
        strict=True,
    )
}
"""Sides that divide the frames: 32 pixels in mini games, 84 on Atari."""

# Failure cases -------------------------------------------------------------------------------------------------------

FAILURE_ROWS = {
    "random": method("random"),
    "mega": method("mega"),
    "information": both(method("mega"), BY_INFORMATION),
    "things": GROWTH["things"],
    "as printed": AS_PRINTED,
    "extrinsic": method("extrinsic"),
}


def with_cells(side: int) -> Change:
    return control(H=side, W=side)


def failures(play: Callable[..., Change]) -> dict[str, Change]:
    """Columns with what the paper says mega-reward fails on, beside the same game without it."""
    return {
        "mini-demon": play("mini-demon"),
        "small entities": both(play("mini-demon"), with_cells(2)),
        "large entities": both(play("mini-demon"), with_cells(8)),
        "flash": play("mini-demon", death_flash=True),
        "camera": play("mini-demon", moving_camera=True),
    }


def held_still(config: TrainConfig) -> TrainConfig:
    return replace(config, stabilise=4)


def with_camera(name: str) -> dict[str, Change]:
    """Columns of a game: as it is, with a camera that the player moves, and with that camera's motion undone."""
    camera = game(name, moving_camera=True)
    return {name: game(name), f"{name} camera": camera, f"{name} camera stabilised": both(camera, held_still)}


FAILURES_ON_MINI = failures(game) | with_camera("mini-pong") | with_camera("mini-breakout")
FAILURES = {
    scale: replace(one, columns=columns)
    for (scale, one), columns in zip(
        at_all_scales("failures", "Where does mega-reward fail?", FAILURE_ROWS, ("pitfall",)).items(),
        (failures(short_game), FAILURES_ON_MINI, {"pitfall": atari("pitfall")}, {"pitfall": long_atari("pitfall")}),
        strict=True,
    )
}
"""Entities are small or large beside the cells of a grid of 2 x 2 or 8 x 8. Pitfall's camera moves with the player."""

FAILURE_MAPS = Experiment(
    name="failure-maps",
    question="Which failure case makes control maps wrong?",
    rows={
        "all pixels alike": both(ALL_ALIKE, only_watch()),
        "default": only_watch(),
        "information": only_watch(BY_INFORMATION),
        "things": only_watch(OF_THINGS),
    },
    columns=FAILURES_ON_MINI,
    frames=50_000,
    seeds=3,
    is_audit=True,
)
"""Learnt from random play, so that nothing but the maps can fail."""
EXPERIMENTS[FAILURE_MAPS.name] = FAILURE_MAPS

# Together with the score ---------------------------------------------------------------------------------------------


def beside_the_score(name: str) -> Change:
    """Novelty as a second reward, as in RND's paper."""

    def change(config: TrainConfig) -> TrainConfig:
        return replace(method(name)(config), with_score=True)

    return change


def noises(play: Change, *stds: float) -> dict[str, Change]:
    return {f"noise {std:g}": both(play, noise(std=std)) for std in stds}


O_AND_G = {name: beside_the_score(MASKS[name]) for name in ("O-RND", "G-RND")}
NOISE_QUESTION = "How much noise does novelty bear, masked by control or not?"
NOISE = {
    "smoke": Experiment(
        *("paper-noise-smoke", NOISE_QUESTION, for_smoke(O_AND_G)),
        *(noises(short_game("mini-road"), 0.0, 0.3, 0.6), SMOKE_FRAMES),
        seeds=1,
    ),
    "mini": Experiment("paper-noise-mini", NOISE_QUESTION, O_AND_G, noises(game("mini-road"), *STDS), 150_000, seeds=5),
    "10M": NOISE_STRENGTHS,
    "80M": replace(NOISE_STRENGTHS, name="paper-noise-80M", frames=PAPER_FRAMES, seeds=3),
}
MASKED_RND = {
    "smoke": Experiment(
        "paper-masked-rnd-smoke",
        NOISE_MINI.question,
        for_smoke({name: NOISE_MINI.rows[name] for name in MASKS}),
        {
            "mini-breakout tv": both(short_game("mini-breakout"), noise(tv="always")),
            "mini-breakout noise 0.3": both(short_game("mini-breakout"), noise(std=0.3)),
        },
        SMOKE_FRAMES,
        seeds=1,
    ),
    "mini": NOISE_MINI,
    "10M": NOISE_HARD,
    "80M": replace(NOISE_HARD, name="paper-masked-rnd-80M", frames=PAPER_FRAMES, seeds=3),
}
PRETRAINING_PLANS = {
    "smoke": replace(
        PRETRAINING_MINI,
        name="paper-pretraining-smoke",
        rows=for_smoke(PRETRAINING_MINI.rows),
        columns={"mini-breakout": short_game("mini-breakout")},
        pretrained_by=for_smoke(PRETRAINING_MINI.pretrained_by),
        frames=SMOKE_FRAMES,
        seeds=1,
    ),
    "mini": PRETRAINING_MINI,
    "10M": PRETRAINING,
    "80M": replace(PRETRAINING, name="paper-pretraining-80M", frames=PAPER_FRAMES // 2, seeds=3),
}
"""Half of the paper's frames without the score and half with it."""

PAPER_PLANS = (
    *(PLAY, MORE, AGAINST_SCORE, AGAINST_HUMANS, RUNNING_TIME, CASE_STUDY),
    *(COMPONENTS, GRID, FAILURES, NOISE, MASKED_RND, PRETRAINING_PLANS),
)
EXPERIMENTS.update({one.name: one for plan in PAPER_PLANS for one in plan.values()})
