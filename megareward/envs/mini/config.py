"""The mini games and their options. Torch-free; every default is ours, as the paper plays Atari only."""

from dataclasses import dataclass, fields, replace
from typing import Any, Self

from megareward.envs.config import EnvConfig, Game
from megareward.errors import UsageError, suggestion

SMALLEST_SIZE, LARGEST_SIZE = 32, 256
"""Frame sides in pixels. Below 32 the ball would be thinner than two pixels; above 256 they waste memory."""


@dataclass(frozen=True)
class MiniConfig(EnvConfig):
    """Options of every mini game. The game itself is the same at every size and with every extra drawn."""

    size: int = 32
    """Side of the square frame, in pixels. 32 gives the 4 x 4 grid cells of 8 pixels; 84 is Atari's. Source: ours."""
    max_steps: int = 1000
    """Decisions per episode before it is truncated (one decision is one frame here). Source: ours."""
    distractor: bool = False
    """Draw an object above the playfield that moves on its own path and cannot be controlled. Source: ours."""
    noisy_tv: bool = False
    """Fill the top left corner with new random grey levels at every step. Source: ours, after the noisy-TV problem."""
    death_flash: bool = False
    """Freeze the game and flash the screen for 8 steps before a life is counted as lost, as some Atari games do."""
    moving_camera: bool = False
    """Shift the whole picture by half of the player's distance from the middle. Source: ours, after scrolling games."""
    life_loss_is_terminal: bool = False
    """Report `terminated` when a life is lost although the game goes on, and `first` at the next frame (see
    envs/interface.py). Source: ours."""

    def __post_init__(self) -> None:
        if not SMALLEST_SIZE <= self.size <= LARGEST_SIZE:
            raise UsageError(
                f"size={self.size} is no frame size for a mini game; choose {SMALLEST_SIZE} to {LARGEST_SIZE} pixels."
            )
        _at_least_one(max_steps=self.max_steps)

    def with_still_camera(self) -> Self:
        return replace(self, moving_camera=False)

    @property
    def starting_lives(self) -> int:
        """How many failures end the game."""
        return 1


@dataclass(frozen=True)
class PongConfig(MiniConfig):
    """mini-pong: +1 when the opponent misses, -1 when we miss. Against the wall: +1 for every ball returned."""

    opponent: bool = True
    """Play against a slow opponent; if False, against a wall, and the first miss ends the game. Source: ours."""
    points: int = 5
    """Misses of either side that end a game against the opponent. A miss of ours counts as a life. Source: ours."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _at_least_one(points=self.points)

    @property
    def starting_lives(self) -> int:
        return self.points if self.opponent else 1


@dataclass(frozen=True)
class LivesConfig(MiniConfig):
    """A game that is over when the last of some lives is lost."""

    lives: int = 3
    """Lives of the player in a game. Source: ours."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _at_least_one(lives=self.lives)

    @property
    def starting_lives(self) -> int:
        return self.lives


@dataclass(frozen=True)
class BreakoutConfig(LivesConfig):
    """mini-breakout: +1 for every brick. A life is a ball; Atari's Breakout gives 5."""


@dataclass(frozen=True)
class DemonConfig(LivesConfig):
    """mini-demon: +1 for every enemy shot. A life is a gun; Atari's DemonAttack gives 4."""


@dataclass(frozen=True)
class RoadConfig(LivesConfig):
    """mini-road: +1 for every crossing. A life is a walker; Atari's Freeway only throws the chicken back."""


@dataclass(frozen=True)
class CrateConfig(LivesConfig):
    """mini-crate: +1 for every crate delivered. A life is a worker."""


def _game(name: str, title: str, config: type[MiniConfig], world: str, actions: int) -> Game:
    make = f"megareward.envs.mini.{world}.make"
    return Game(name, title, config, make, actions=actions, score="not shown", preset="mini", branching="online")


MINI_GAMES: dict[str, Game] = {
    game.name: game
    for game in (
        _game("mini-pong", "MiniPong", PongConfig, "pong:MiniPong", actions=3),
        _game("mini-breakout", "MiniBreakout", BreakoutConfig, "breakout:MiniBreakout", actions=3),
        _game("mini-demon", "MiniDemon", DemonConfig, "demon:MiniDemon", actions=4),
        _game("mini-road", "MiniRoad", RoadConfig, "road:MiniRoad", actions=3),
        _game("mini-crate", "MiniCrate", CrateConfig, "crate:MiniCrate", actions=5),
    )
}
"""Every mini game, by its name."""

TUNING_GAMES = ("mini-pong", "mini-breakout", "mini-demon")
"""Games on which settings were chosen; the others were made for evaluation."""

MINI_CONFIGS: dict[str, type[MiniConfig]] = {
    name: game.config for name, game in MINI_GAMES.items() if issubclass(game.config, MiniConfig)
}


def mini_config(name: str, **options: Any) -> MiniConfig:
    """The options of one game, from plain values such as a command line or a `config.json` holds."""
    if name not in MINI_CONFIGS:
        raise UsageError(
            f"There is no mini game {name!r}.{suggestion(name, MINI_GAMES)} The games are {', '.join(MINI_GAMES)}."
        )
    known = [field.name for field in fields(MINI_CONFIGS[name])]
    for option in options:
        if option not in known:
            raise UsageError(
                f"{name} has no option {option!r}.{suggestion(option, known)} Its options are {', '.join(known)}."
            )
    return MINI_CONFIGS[name](**options)


def _at_least_one(**numbers: int) -> None:
    for option, number in numbers.items():
        if number < 1:
            raise UsageError(f"{option}={number} is no game at all; choose 1 or more.")
