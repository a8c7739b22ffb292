"""Building blocks of rows: the forms of mega-reward that experiments compare."""

from dataclasses import replace

from megareward.control.config import by_things
from megareward.experiments.plans.changes import both, control, method
from megareward.experiments.plans.experiment import Change
from megareward.training.config import TrainConfig


def charged(config: TrainConfig) -> TrainConfig:
    """Mega-reward that loses all of g when an episode ends."""
    return replace(config, reward=replace(config.reward, end_takes_all=True))


def no_charge(config: TrainConfig) -> TrainConfig:
    """Mega-reward that loses nothing when an episode ends."""
    return replace(config, reward=replace(config.reward, end_takes_all=False))


def no_g(config: TrainConfig) -> TrainConfig:
    return replace(config, g_channel="no")


def with_g(config: TrainConfig) -> TrainConfig:
    return replace(config, g_channel="auto")


PAIRS = control(rtm={"model": "pairs"})
ADDED_UP = {"combine": "sum", "clip": True, "above_chance": True}
EARLIER_MODELS = both(PAIRS, control(latent={**ADDED_UP, "hold": True, "background": 0.5, "reward": "record"}))
EARLIER = both(EARLIER_MODELS, charged)
"""Mega-reward as it was by default when the first tables were made."""
SOURCES_RULE = ("rnd", "curiosity", "count")
"""Methods whose sources let returns continue beyond the end of a game."""
FIRST_SEVEN = ("random", "mega", "dir", *SOURCES_RULE, "extrinsic")


def as_in_its_source(name: str) -> Change:
    """Each method under the rule for death of its own source. Such tables compare rules as well as rewards; `death`
    compares rewards alone."""

    def change(config: TrainConfig) -> TrainConfig:
        config = EARLIER_MODELS(method(name)(config))
        if name in SOURCES_RULE:
            return replace(config, reward=replace(config.reward, episodic="no"))
        return charged(config) if name == "mega" else config

    return change


EQUATION_10 = {"combine": "sum", "hold": False, "clip": False, "above_chance": False}
LITERAL = control(latent={**EQUATION_10, "reward": "difference"})
POSITIVE = control(latent={**EQUATION_10, "reward": "positive"})
UNHELD = control(latent={"hold": False, "clip": False})
"""Eq. 10 itself, except that only what exceeds chance counts."""
FORGETS = control(latent={"background": 0.5})
UNTRAINED = control(passes=0)
"""Maps of models that never learn."""
FLASH_PAYS = control(latent={"flash": 1.0})
"""A step that changes most of the screen counts like any other."""


def compared(*changes: Change) -> Change:
    """A row of `forms`: a base that does not depend on the present defaults, with one or two changes."""
    base = {**ADDED_UP, "hold": True, "background": 1.0, "reward": "spread"}
    return both(EARLIER, control(latent=base), with_g, *changes)


ALL_ALIKE = control(rtm={"local_credit": "even"}, latent={"background": 0.5})
"""Relations by sight in their first form: all changed pixels have the same weight, and a cell that shows only
background loses half of its control in each step."""
BY_SIGHT = both(control(rtm={"model": "local"}, latent=ADDED_UP), ALL_ALIKE)
UNHELD_BY_SIGHT = both(BY_SIGHT, control(latent={"hold": False}))


def form(reward: str, *settings: Change) -> Change:
    """Mega-reward in this form of Eq. 11. Forms that reward the growth of control lose all of it at an end; forms that
    reward its level lose nothing."""
    change = both(method("mega"), *settings, control(latent={"reward": reward}))
    return change if reward in ("difference", "positive", "record", "spread") else both(change, no_charge)


MOVED = control(latent={"reward": "moved"})
WHAT_MOVES = form("moved")
"""The reward is the control of what moves and is not the agent's body, on the maps of the default."""
BY_INFORMATION = control(adm={"direct": "information"}, latent={"above_chance": True})
"""Direct control as each cell's information about the action. g counts only what exceeds chance, so that cells with
next to none add nothing."""


def of_things(config: TrainConfig) -> TrainConfig:
    return replace(config, control=by_things(config.control))


OF_THINGS = both(BY_INFORMATION, of_things)
"""Control is carried by things, not cells; direct control is their information about the action."""
AS_PRINTED = both(method("mega"), LITERAL, control(latent={"background": 1.0, "flash": 1.0}))
GROWTH = {
    "mega without the charge": both(method("mega"), no_charge),
    "growth": both(method("mega"), EARLIER_MODELS, no_charge),
    "growth, charged": both(method("mega"), EARLIER),
    "growth, charged, direct": both(method("mega-direct"), EARLIER),
    "Eq. 11 added up": form("difference", UNHELD_BY_SIGHT),
    "Eq. 11, all pixels alike": both(method("mega"), ALL_ALIKE),
    "record": form("record"),
    "record, information": form("record", BY_INFORMATION),
    "moved": WHAT_MOVES,
    "information": both(method("mega"), BY_INFORMATION),
    "moved, information": both(WHAT_MOVES, BY_INFORMATION),
    "things": both(WHAT_MOVES, OF_THINGS),
    "things, Eq. 11": both(method("mega"), OF_THINGS),
}
"""Other forms of mega-reward: the default without the loss of all control at an end; the form `record` on relations by
pairs, with that loss and without; the sum of direct and latent control in place of the larger of the two; relations in
which all changed pixels have the same weight; reward only for growth beyond a cell's recent maximum (`record`); reward
for the control of what moves instead of for growth (`moved`); default, `record` and `moved` with direct control as
information instead of attention; and `moved` and the default on things."""
