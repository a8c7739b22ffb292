"""Experiments on Atari."""

from dataclasses import replace

from megareward.experiments.plans.changes import (
    RANDOM_FRAMES,
    atari,
    both,
    long_atari,
    method,
    random_play,
    under_both_rules,
)
from megareward.experiments.plans.experiment import Change, Experiment
from megareward.experiments.plans.forms import (
    BY_INFORMATION,
    EARLIER,
    FIRST_SEVEN,
    FLASH_PAYS,
    GROWTH,
    UNTRAINED,
    WHAT_MOVES,
    as_in_its_source,
)
from megareward.experiments.plans.games import PAPER_GAMES
from megareward.training.presets import without_fast_paths

DEATH_ATARI = Experiment(
    name="death-atari",
    question="What is control worth on Atari, under one rule for death?",
    rows=under_both_rules(("alive", "mega", "rnd"), ("mega", "rnd"))
    | {"mega without the charge": GROWTH["mega without the charge"]},
    columns={name: atari(name) for name in ("breakout", "kung_fu_master", "up_n_down", "seaquest", "pong")},
    frames=10_000_000,
    seeds=1,
    seeds_of={"alive": 2, "mega": 2},
    is_long=True,
    whole_games=30,
)

ATARI_RELATIONS = Experiment(
    name="atari-relations",
    question="Which relations lead to play on Atari?",
    rows={"mega": method("mega")} | {name: GROWTH[name] for name in ("Eq. 11 added up", "Eq. 11, all pixels alike")},
    columns={name: atari(name) for name in ("breakout", "pong", "up_n_down", "seaquest")},
    frames=10_000_000,
    seeds=1,
    whole_games=30,
)

ATARI = Experiment(
    name="atari",
    question="Which reward leads to play on Atari, with the score hidden from all but `extrinsic`?",
    rows={name: as_in_its_source(name) for name in FIRST_SEVEN if name != "count"},
    columns={name: atari(name) for name in ("pong", "breakout", "demon_attack", "seaquest")},
    frames=10_000_000,
    seeds=1,
)

PLAY = Experiment(
    name="play",
    question="How well does each reward play the paper's 18 games after an eighth of its frames?",
    rows={"random": random_play}
    | {name: method(name) for name in ("alive", "mega", "rnd", "extrinsic")}
    | {name: method(name) for name in ("curiosity", "dir", "count", "emp", "sto", "div", "mega-direct", "mega-count")},
    columns={name: atari(name) for name in PAPER_GAMES},
    frames=10_000_000,
    frames_of={"random": RANDOM_FRAMES},
    seeds=1,
    is_long=True,
    whole_games=30,
)

LITERAL_AND_DEFAULT = Experiment(
    name="presets",
    question="How do the paper's text and the authors' code play, beside the default and beside survival alone?",
    rows={
        "paper": method("mega", "paper,many"),
        "released": method("mega", "released,many"),
        "default": method("mega", "many"),
        "alive": method("alive", "many"),
    },
    columns={name: atari(name, "default") for name in ("breakout", "pong", "up_n_down")},
    frames=10_000_000,
    seeds=1,
    whole_games=30,
)

ATARI_LONG = Experiment(
    name="atari-long",
    question="What does each reward lead to in the paper's 80M frames?",
    rows={name: as_in_its_source(name) for name in FIRST_SEVEN if name not in ("random", "count")},
    columns={name: long_atari(name) for name in ("pong", "breakout", "demon_attack", "seaquest")},
    frames=80_000_000,
    seeds=1,
)

ATARI_FORMS = Experiment(
    name="atari-forms",
    question="Does another form of Eq. 11, or another direct control, lead to play on Atari?",
    rows={
        "mega": method("mega"),
        "moved": WHAT_MOVES,
        **{name: GROWTH[name] for name in ("record", "information", "moved, information")},
        "mega, untrained maps": both(method("mega"), UNTRAINED),
    },
    columns={name: atari(name) for name in ("breakout", "pong", "up_n_down", "seaquest")},
    frames=10_000_000,
    seeds=1,
    whole_games=30,
)


def after(steps: int) -> Change:
    """A warm-up of so many decisions."""
    return lambda config: replace(config, warmup_steps=steps)


A_QUARTER = 153_600
"""A quarter of the usual warm-up, in decisions: 614,400 frames of Atari, from which the background is made."""

WARM_UP = Experiment(
    name="warm-up",
    question="How short can the warm-up be?",
    rows={
        "mega": method("mega"),
        "mega, a quarter of the warm-up": both(method("mega"), after(A_QUARTER)),
        "mega, a sixteenth of the warm-up": both(method("mega"), after(38_400)),
    }
    | {f"{name}, a quarter of the warm-up": both(method(name), after(A_QUARTER)) for name in ("alive", "rnd")}
    | {"moved, information, a quarter of the warm-up": both(WHAT_MOVES, BY_INFORMATION, after(A_QUARTER))},
    columns={name: atari(name) for name in ("breakout", "pong", "seaquest", "up_n_down")},
    frames=10_000_000,
    seeds=1,
    whole_games=30,
    is_long=True,
)

ATARI_SHORT = Experiment(
    name="atari-short",
    question="Is it control or survival that is learnt first on Atari?",
    rows={
        name: both(change, after(A_QUARTER))
        for name, change in {
            **{name: method(name) for name in ("alive", "mega", "rnd", "curiosity", "extrinsic")},
            "moved, information": both(WHAT_MOVES, BY_INFORMATION),
        }.items()
    },
    columns={name: atari(name) for name in ("up_n_down", "seaquest", "breakout")},
    frames=2_000_000,
    seeds=1,
)
"""For two cores without a GPU: a quarter of the usual warm-up, the same for all, and the learning right after it."""

ATARI_FLASH = Experiment(
    name="atari-flash",
    question="Does DemonAttack, whose screen flashes when the ship is hit, teach to be hit?",
    rows={"mega, a flash pays": both(EARLIER, FLASH_PAYS), "mega": EARLIER},
    columns={"demon_attack": atari("demon_attack")},
    frames=10_000_000,
    seeds=1,
)

PARITY = Experiment(
    name="parity",
    question="Does Ex-PPO learn as well per frame with all fast paths as with none?",
    rows={"fast": method("extrinsic"), "plain": both(method("extrinsic"), without_fast_paths)},
    columns={"breakout": atari("breakout")},
    frames=3_000_000,
    seeds=4,
)

ALL = (
    DEATH_ATARI,
    ATARI_RELATIONS,
    ATARI,
    PLAY,
    LITERAL_AND_DEFAULT,
    ATARI_LONG,
    ATARI_FORMS,
    WARM_UP,
    ATARI_SHORT,
    ATARI_FLASH,
    PARITY,
)
