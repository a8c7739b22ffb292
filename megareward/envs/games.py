"""The list of games. Any common spelling of a name goes in (`ALE/SpaceInvaders-v5`), one game comes out.

A new game is one call of `register`, from inside or outside the package. Importing this module is cheap: neither torch
nor ale-py (a third of a second) is loaded to answer `--help`.
"""

import functools
import importlib.util
import json
import re
from importlib import resources
from pathlib import Path

from megareward.envs import score_masks
from megareward.envs.atari_config import AtariConfig
from megareward.envs.config import Game
from megareward.envs.mini import MINI_GAMES
from megareward.errors import RunError, UsageError, suggestion

TWO_PLAYER = ("combat", "joust", "maze_craze", "warlords")
"""ale-py ships these ROMs without a one-player mode; loading one would end the whole process."""

ROOM_AT = {"montezuma_revenge": 3}
"""The byte of the console's memory that holds the number of the room, where it is known."""

_ALIASES = {
    "3dtictactoe": "tictactoe3d",
    "montezuma": "montezumarevenge",
    "montezumasrevenge": "montezumarevenge",
    "robottank": "robotank",
}
"""Names on boxes and in papers that differ from the ROM's name in more than spelling; letters only."""

_GYM_DECORATION = re.compile(r"^ale/|([-_ ]?ram)?[-_ ]?(no[-_ ]?frameskip|deterministic)?([-_ ]v\d+)?$")
"""What Gym ids wrap around a game: `ALE/Pong-v5`, `Pong-ramNoFrameskip-v4`, `PongDeterministic-v0`."""


def register(game: Game) -> None:
    """Add a game to the list. Adding the same row again changes nothing; another game of that name is refused."""
    letters = _letters(game.name)
    if not letters:
        raise UsageError(f"{game.name!r} is no name for a game; it needs a letter or a digit.")
    if letters in _ALIASES or _games().setdefault(letters, game) != game:
        raise UsageError(f"There is a game called {game.name!r} already; register yours under another name.")


def unregister(name: str) -> None:
    """Take a game off the list again."""
    del _games()[_letters(find_game(name).name)]


def find_game(name: str) -> Game:
    """The game of this name in any common spelling; an unknown name raises a `UsageError` with suggestions.

    `Space Invaders`, `space-invaders` and `SpaceInvadersNoFrameskip-v4` are all `space_invaders`.
    """
    plain = name.strip().lower()
    for spelling in (plain, _GYM_DECORATION.sub("", plain.removesuffix(".bin"))):
        letters = _letters(spelling)
        if game := _games().get(_ALIASES.get(letters, letters)):
            return game
    if letters in map(_letters, TWO_PLAYER):
        raise UsageError(f"{name!r} is a game for two players only; no agent can play it alone.")
    known = [game.name for game in list_games()]
    raise UsageError(f"There is no game {name!r}.{suggestion(spelling, known)} All names: megareward games.")


def resolve_game(name: str) -> str:
    """The canonical name of a game in any common spelling."""
    return find_game(name).name


def list_games() -> list[Game]:
    """Everything that can be played, without starting an emulator: mini games, Atari, then those registered since."""
    return list(_games().values())


def title(game: str) -> str:
    """The name as printed in the papers' tables: `space_invaders` -> `SpaceInvaders`."""
    return game.title().replace("_", "").replace("-", "")


@functools.cache
def atari_games() -> tuple[str, ...]:
    """Every game ale-py can play alone, in alphabetical order, as ROM names (`space_invaders`)."""
    ale_py = importlib.util.find_spec("ale_py")
    if ale_py is None or not ale_py.submodule_search_locations:
        raise RunError("ale-py, which brings the Atari games, is not installed. Remedy: pip install 'ale-py>=0.12'.")
    # The files themselves are the list; ale_py.roms knows it too, but importing it loads the emulator.
    roms = Path(ale_py.submodule_search_locations[0], "roms").glob("*.bin")
    return tuple(sorted({rom.stem for rom in roms} - set(TWO_PLAYER)))


@functools.cache
def _games() -> dict[str, Game]:
    """All rows by the letters of their names. Filled on first use, as the Atari games are read off the disk."""
    actions = json.loads(resources.files("megareward.envs").joinpath("data/actions.json").read_text())
    atari = [
        Game(
            name=rom,
            title=title(rom),
            config=AtariConfig,
            make="megareward.envs.atari:make",
            actions=actions.get(rom),  # None if a newer ale-py brought the game
            score=score_masks.score_display(rom),
            branching="replay",
        )
        for rom in atari_games()
    ]
    return {_letters(game.name): game for game in (*MINI_GAMES.values(), *atari)}


def _letters(name: str) -> str:
    """A name reduced to what every spelling shares: small letters and digits."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
