"""Lists of games: the paper's, those that settings were chosen on, those of the benchmark."""

from megareward.envs.mini import MINI_GAMES

PAPER_GAMES = (
    *("seaquest", "bowling", "venture", "wizard_of_wor", "asterix", "robotank", "beam_rider", "battle_zone"),
    *("kung_fu_master", "centipede", "pong", "air_raid", "double_dunk", "demon_attack", "berzerk", "breakout"),
    *("jamesbond", "up_n_down"),
)
"""In the order of the paper's table."""
HARD_GAMES = ("montezuma_revenge", "gravitar", "pitfall", "private_eye", "solaris", "venture")
"""The paper's games of hard exploration."""
TUNED_ON = ("pong", "breakout", "demon_attack", "freeway", "seaquest")
"""Games on which settings of the control models were chosen."""
NOT_TUNED_ON = tuple(
    name
    for name in dict.fromkeys((*PAPER_GAMES, *HARD_GAMES, "space_invaders", "assault", "boxing"))
    if name not in TUNED_ON
)
BENCHMARK_GAMES = (*MINI_GAMES, *TUNED_ON, *NOT_TUNED_ON)
"""Games of which `megareward truth all` makes truth sets."""
