"""Every experiment as a list of configs. Free of torch.

An experiment (`experiment`) is a table whose rows and columns are changes of a config (`changes`, `forms`); those on
mini games, those on Atari and those that audit control maps have a file each.
"""

from collections.abc import Iterator

from megareward.errors import UsageError, suggestion
from megareward.experiments.plans import of_maps, on_atari, on_mini_games
from megareward.experiments.plans.causes import CAUSES
from megareward.experiments.plans.changes import (
    RANDOM_FRAMES,
    atari,
    both,
    control,
    game,
    long_atari,
    method,
    nothing_ends,
    only_watch,
    random_play,
)
from megareward.experiments.plans.experiment import Cell, Change, Device, Experiment, base_config
from megareward.experiments.plans.forms import ALL_ALIKE, AS_PRINTED, BY_INFORMATION, GROWTH, OF_THINGS, UNTRAINED
from megareward.experiments.plans.games import BENCHMARK_GAMES, HARD_GAMES, PAPER_GAMES, TUNED_ON
from megareward.experiments.plans.of_maps import ALL_MAPS, MAPS
from megareward.experiments.plans.on_atari import (
    ATARI,
    ATARI_LONG,
    ATARI_RELATIONS,
    DEATH_ATARI,
    LITERAL_AND_DEFAULT,
    PARITY,
    PLAY,
)
from megareward.experiments.plans.on_mini_games import DEATH, FORMS, MINI

__all__ = [
    "ALL_ALIKE",
    "ALL_MAPS",
    "AS_PRINTED",
    "ATARI",
    "ATARI_LONG",
    "ATARI_RELATIONS",
    "BENCHMARK_GAMES",
    "BY_INFORMATION",
    "CAUSES",
    "DEATH",
    "DEATH_ATARI",
    "EXPERIMENTS",
    "FORMS",
    "GROWTH",
    "HARD_GAMES",
    "LITERAL_AND_DEFAULT",
    "MAPS",
    "MINI",
    "OF_THINGS",
    "PAPER_GAMES",
    "PARITY",
    "PLAY",
    "RANDOM_FRAMES",
    "TUNED_ON",
    "UNTRAINED",
    "Cell",
    "Change",
    "Device",
    "Experiment",
    "atari",
    "base_config",
    "both",
    "control",
    "find_experiment",
    "game",
    "long_atari",
    "matching",
    "method",
    "nothing_ends",
    "only_watch",
    "random_play",
]

EXPERIMENTS = {experiment.name: experiment for experiment in (*on_mini_games.ALL, CAUSES, *on_atari.ALL, *of_maps.ALL)}


def find_experiment(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        known = ", ".join(EXPERIMENTS)
        raise UsageError(f"There is no experiment '{name}'.{suggestion(name, EXPERIMENTS)} Experiments: {known}.")
    return EXPERIMENTS[name]


def matching(cells: list[Cell], words: str) -> Iterator[Cell]:
    """The cells whose names contain every one of the comma-separated words, and none of those after `not:`. One of
    several is enough where they are separated by slashes: rnd/alive,pong/seaquest."""
    asked = [(word.removeprefix("not:").split("/"), not word.startswith("not:")) for word in words.split(",") if word]
    return (cell for cell in cells if all(any(one in cell.name for one in some) is wanted for some, wanted in asked))
