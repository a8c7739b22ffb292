"""Is it the form of the reward or the maps? Every reward computed from control maps, with true, learnt and untrained
maps, under both rules for death."""

from collections.abc import Mapping
from dataclasses import dataclass

from megareward.control import config as control_config
from megareward.envs.mini import MINI_GAMES
from megareward.experiments.plans.changes import both, control, game, method, nothing_ends
from megareward.experiments.plans.experiment import Experiment
from megareward.experiments.plans.forms import AS_PRINTED, UNTRAINED, form
from megareward.statistics.aggregates import mean_of_games

WHOSE_MAPS = {
    "true maps": control(oracle={"lags": 256}),
    "learnt maps": both(),
    "untrained maps": UNTRAINED,
}
"""Where the maps come from: branches of the game, the default's models, or models that have learnt nothing. Branches
are followed until the weight of their action in Eq. 9 is 0.08; after 32 steps, which is less than a ball of mini-pong
takes to return, the weight is still 0.73."""
REWARDS = {"as printed": AS_PRINTED} | {name: form(name) for name in control_config.FORMS}
REWARDS |= {"count bonus on g": method("mega-count"), "novelty where g is": method("g-rnd")}
"""Rewards computed from the same maps: Eq. 10 and 11 to the letter, every form of Eq. 11 with the default's g, and two
kinds of novelty: that of g, and that of the screen where g is."""
RULES = {"": (), ", nothing ends": (nothing_ends,)}


@dataclass(frozen=True)
class Causes(Experiment):
    def remarks(self, scores: Mapping[tuple[str, str], list[float]]) -> list[str]:
        """The means over the games once more, with a line for every reward."""
        rows = self.normalised(scores)

        def shown(row: str) -> str:
            if row not in rows:
                return "-"
            mean, low, high = mean_of_games(rows[row])
            fewest = min(map(len, rows[row].values()))
            interval = f" [{low:.2f}, {high:.2f}]" if fewest > 1 else ""
            return f"{mean:.2f}{interval}" + ("" if fewest >= self.seeds else f" ({fewest})")

        lines = []
        for rule in RULES:
            table = [[shown(f"{reward}, {maps}{rule}") for maps in WHOSE_MAPS] for reward in REWARDS]
            if all(text == "-" for texts in table for text in texts):
                continue
            lines += [f"| {self.name}, mean over the games{rule} | {' | '.join(WHOSE_MAPS)} |"]
            lines += ["|---" * (len(WHOSE_MAPS) + 1) + "|"]
            lines += [f"| {reward} | {' | '.join(texts)} |" for reward, texts in zip(REWARDS, table, strict=True)]
            lines += [""]
        note = f"In brackets, with how many seeds a game, if not {self.seeds}: of the game that has the fewest."
        return [*lines, note, ""] if lines else []


CAUSES = Causes(
    name="causes",
    question="Is it the form of the reward or the maps that keep control from paying?",
    rows={name: method(name) for name in ("random", "alive", "rnd", "curiosity", "extrinsic")}
    | {
        f"{reward}, {maps}{rule}": both(change, whose, *ends)
        for rule, ends in RULES.items()
        for reward, change in REWARDS.items()
        for maps, whose in WHOSE_MAPS.items()
    },
    columns={name: game(name) for name in MINI_GAMES},
    frames=150_000,
    seeds=5,
    is_long=True,
    between=("random", "extrinsic"),
)
