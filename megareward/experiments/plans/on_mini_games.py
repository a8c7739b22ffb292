"""Experiments on mini games."""

from dataclasses import replace

from megareward.control import config as control_config
from megareward.envs.mini import MINI_GAMES, TUNING_GAMES
from megareward.experiments.plans.changes import both, control, game, method, nothing_ends, under_both_rules
from megareward.experiments.plans.experiment import Change, Experiment
from megareward.experiments.plans.forms import (
    ALL_ALIKE,
    BY_SIGHT,
    EARLIER,
    FIRST_SEVEN,
    FLASH_PAYS,
    FORGETS,
    GROWTH,
    LITERAL,
    MOVED,
    PAIRS,
    POSITIVE,
    UNHELD,
    UNHELD_BY_SIGHT,
    UNTRAINED,
    WHAT_MOVES,
    as_in_its_source,
    charged,
    compared,
    form,
    no_charge,
    no_g,
    with_g,
)
from megareward.training.config import TrainConfig

MINI = Experiment(
    name="mini-games",
    question="Which reward leads to play on the mini games, and which is fooled by a noisy TV?",
    rows={name: as_in_its_source(name) for name in FIRST_SEVEN},
    columns={name: game(name) for name in TUNING_GAMES}
    | {f"{name} tv": game(name, noisy_tv=True) for name in TUNING_GAMES},
    frames=150_000,
)

FORMS = Experiment(
    name="forms",
    question="Which form of Eq. 10-11, of the attention and of RTM's loss leads to play?",
    rows={
        "base": compared(),
        "literal Eq. 10-11": compared(LITERAL),
        "positive part": compared(POSITIVE),
        "positive part, hold and clip": compared(control(latent={"reward": "positive"})),
        "nothing lost at the end": compared(no_charge),
        "no g channel": compared(no_g),
        "background forgets": compared(FORGETS),
        "background forgets, no g channel": compared(FORGETS, no_g),
        "literal, no g channel": compared(LITERAL, no_g),
        "positive part, no g channel": compared(POSITIVE, no_g),
        "positive part above chance, no g channel": compared(UNHELD, control(latent={"reward": "positive"}), no_g),
        "record, background forgets, no g channel": compared(
            UNHELD, control(latent={"reward": "record"}), FORGETS, no_g
        ),
        "record, background forgets": compared(UNHELD, control(latent={"reward": "record"}), FORGETS),
        "record, hold and clip, background forgets, no g channel": compared(
            control(latent={"reward": "record"}), FORGETS, no_g
        ),
        "difference, background forgets, no g channel": compared(
            UNHELD, control(latent={"reward": "difference"}), FORGETS, no_g
        ),
        "difference, hold and clip, background forgets, no g channel": compared(
            control(latent={"reward": "difference"}), FORGETS, no_g
        ),
        "spread, no hold, no clip, background forgets, no g channel": compared(UNHELD, FORGETS, no_g),
        "sparsemax relation": compared(control(rtm={"attention": "sparsemax"})),
        "no anchor": compared(control(rtm={"anchor": 0.0})),
        "gauss anchor": compared(control(rtm={"anchor_kind": "gauss"})),
        "still cells as learnt": compared(control(rtm={"still_on_itself": False})),
        "direct control below chance too": compared(control(latent={"above_chance": False})),
        "no policy prior": compared(control(adm={"policy_prior": False})),
        "blend loss": compared(control(rtm={"loss": "blend", "source_loss": 0.0, "targets": 1.0})),
        "oracle": compared(control(oracle={"lags": 32})),
        "oracle, literal": compared(control(oracle={"lags": 32}), LITERAL),
    },
    columns={name: game(name) for name in TUNING_GAMES},
    frames=150_000,
)

FLASH = Experiment(
    name="flash",
    question="Does a screen that flashes at every death teach to die?",
    rows={
        "random": method("random"),
        "mega, a flash pays": both(EARLIER, FLASH_PAYS),
        "mega": EARLIER,
        "things": GROWTH["things"],
    },
    columns={"mini-demon flash": game("mini-demon", death_flash=True)},
    frames=150_000,
)

REFUTED_BY = {
    "untrained": UNTRAINED,
    "nothing passed on": control(latent={"relation": "itself"}),
    "nothing ends": nothing_ends,
}
"""What a reward for control must be worse without: models that learn, relations, and, if it is survival, ends."""
NOT_RANDOM = ("alive", "mega", "mega-direct", "rnd", "curiosity", "count")

DEATH = Experiment(
    name="death",
    question="What is control worth, under one rule for death?",
    rows=under_both_rules(("random", *NOT_RANDOM, "mega-count", "dir", "emp", "sto", "div", "extrinsic"), NOT_RANDOM)
    | GROWTH
    | {"growth, nothing ends": both(GROWTH["growth, charged"], nothing_ends)}
    | {"growth, direct, nothing ends": both(GROWTH["growth, charged, direct"], nothing_ends)}
    | {
        f"{name}, {words}": both(GROWTH[name], change)
        for name in ("record", "moved, information", "things")
        for words, change in REFUTED_BY.items()
    },
    columns={name: game(name) for name in MINI_GAMES},
    frames=150_000,
    seeds=5,
    is_long=True,
    between=("random", "extrinsic"),
)


def printed_models(config: TrainConfig) -> TrainConfig:
    """Eq. 1-11 as printed, trained as the others are."""
    models, printed = config.control, control_config.paper(config.control)
    training = {name: getattr(models, name) for name in (*control_config.RELEASED_TRAINING, "overlap")}
    printed = replace(printed, **training, background_frames=models.background_frames)
    return replace(config, control=printed, g_channel="auto")


RUNGS = {
    "relations by sight": control(rtm={"model": "local", "stack": 4, "local_credit": "even"}),
    "what moves is paid": both(MOVED, no_charge),
    "softmax and place": control(adm={"attention": "softmax", "place": True}),
    "frames scaled": control(normalise="pixel"),
    "hold, clip, above chance": control(latent={"hold": True, "clip": True, "above_chance": True}),
    "background and flash": control(latent={"background": 0.5, "flash": 0.5}),
    "policy prior": control(adm={"policy_prior": True}),
    "no g channel": no_g,
}
"""From the method as printed upwards, each on top of those before."""
TOP = both(method("mega"), BY_SIGHT, control(latent={"hold": True}), MOVED, no_charge)
WITHOUT = {
    "pairs": PAIRS,
    "Eq. 11": both(control(latent={"reward": "difference"}), charged),
    "sparsemax": control(adm={"attention": "sparsemax"}),
    "no place": control(adm={"place": False}),
    "frames unscaled": control(normalise="fixed"),
    "no hold": control(latent={"hold": False}),
    "no clip": control(latent={"clip": False}),
    "neither hold nor clip": control(latent={"hold": False, "clip": False}),
    "direct control below chance": control(latent={"above_chance": False}),
    "nothing forgets": control(latent={"background": 1.0}),
    "no policy prior": control(adm={"policy_prior": False}),
    "g channel": with_g,
}
"""The top of the ladder with one thing as it is in the paper."""

LADDER = Experiment(
    name="ladder",
    question="Which deviations from the paper pay for themselves?",
    rows={"0 as printed": both(method("mega"), printed_models, no_charge)}
    | {
        f"{n} {name}": both(method("mega"), printed_models, no_charge, *list(RUNGS.values())[:n])
        for n, name in enumerate(RUNGS, 1)
    }
    | {f"top but {name}": both(TOP, change) for name, change in WITHOUT.items()},
    columns={name: game(name) for name in TUNING_GAMES},
    frames=150_000,
    seeds=3,
)

PLAIN_SUM = control(latent={"clip": False, "above_chance": False})
PLAIN_ADM = control(adm={"place": False, "policy_prior": False})


def by_sight(reward: str) -> Change:
    """This form of Eq. 11 on relations by sight as they were first."""
    return form(reward, UNHELD_BY_SIGHT)


EQ_11 = by_sight("difference")

SIGHT = Experiment(
    name="sight",
    question="Given relations by sight and nothing held, which form of Eq. 10-11 leads to play?",
    rows={
        "Eq. 11": EQ_11,
        "Eq. 11, untrained": both(EQ_11, UNTRAINED),
        "Eq. 11 of the larger": both(method("mega"), ALL_ALIKE),
        "Eq. 11 of the larger, untrained": both(method("mega"), ALL_ALIKE, UNTRAINED),
        "Eq. 11 of the larger, by what is explained": method("mega"),
        "Eq. 11 of the larger, by what is explained, untrained": both(method("mega"), UNTRAINED),
        "Eq. 11, neither place nor prior": both(EQ_11, PLAIN_ADM),
        "Eq. 11, no clip": both(EQ_11, control(latent={"clip": False})),
        "Eq. 10 and 11": both(EQ_11, PLAIN_SUM),
        "Eq. 10 and 11, neither place nor prior": both(EQ_11, PLAIN_SUM, PLAIN_ADM),
        "Eq. 10 and 11, neither, sparsemax": both(EQ_11, PLAIN_SUM, PLAIN_ADM, control(adm={"attention": "sparsemax"})),
        "level": by_sight("level"),
        "level of Eq. 10": both(by_sight("level"), PLAIN_SUM),
        "moved": by_sight("moved"),
        "moved, untrained": both(by_sight("moved"), UNTRAINED),
        "moved, no place": both(by_sight("moved"), control(adm={"place": False})),
        "moved, neither place nor prior": both(by_sight("moved"), PLAIN_ADM),
        "moved, Eq. 10, neither place nor prior": both(by_sight("moved"), PLAIN_SUM, PLAIN_ADM),
        "moved, no clip": both(by_sight("moved"), control(latent={"clip": False})),
        "moved, by what is explained": WHAT_MOVES,
        "moved, by what is explained, untrained": both(WHAT_MOVES, UNTRAINED),
    },
    columns={name: game(name) for name in TUNING_GAMES},
    frames=150_000,
    seeds=3,
)

ALL = (MINI, FORMS, FLASH, DEATH, LADDER, SIGHT)
