"""Names of games: any common spelling goes in (`ALE/SpaceInvaders-v5`), one name comes out (`space_invaders`).

Importing this module is cheap: neither torch nor ale-py (a third of a second) is loaded to answer `--help`.
"""

import functools
import importlib.util
import json
import re
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from megareward.envs import score_masks
from megareward.envs.mini import MINI_GAMES
from megareward.errors import RunError, UsageError, suggestion

TWO_PLAYER = ("combat", "joust", "maze_craze", "warlords")
"""ale-py ships these ROMs without a one-player mode; loading one would end the whole process."""

_ALIASES = {
    "3dtictactoe": "tic_tac_toe_3d",
    "montezuma": "montezuma_revenge",
    "montezumasrevenge": "montezuma_revenge",
    "robottank": "robotank",
}
"""Names printed on boxes and in papers that are more than another spelling of the ROM's name."""

_GYM_DECORATION = re.compile(r"^ale/|([-_ ]?ram)?[-_ ]?(no[-_ ]?frameskip|deterministic)?([-_ ]v\d+)?$")
"""What Gym ids wrap around a game: `ALE/Pong-v5`, `Pong-ramNoFrameskip-v4`, `PongDeterministic-v0`."""


class GameRow(NamedTuple):
    """One line of `megareward games`."""

    name: str
    title: str
    actions: int | None
    """How many do something in this game, of the joystick's 18; None if a newer ale-py brought the game."""
    score: str
    """'box': the score can be painted out. 'not shown': nothing to paint. 'unknown': nobody has measured."""


@functools.cache
def atari_games() -> tuple[str, ...]:
    """Every game ale-py can play alone, in alphabetical order, as ROM names (`space_invaders`)."""
    ale_py = importlib.util.find_spec("ale_py")
    if ale_py is None or not ale_py.submodule_search_locations:
        raise RunError("ale-py, which brings the Atari games, is not installed. Remedy: pip install 'ale-py>=0.12'.")
    # The files themselves are the list; ale_py.roms knows it too, but importing it loads the emulator.
    roms = Path(ale_py.submodule_search_locations[0], "roms").glob("*.bin")
    return tuple(sorted({rom.stem for rom in roms} - set(TWO_PLAYER)))


def resolve_game(name: str) -> str:
    """The canonical name of a game in any common spelling; a name nobody knows is a `UsageError` with suggestions.

    `Space Invaders`, `space-invaders` and `SpaceInvadersNoFrameskip-v4` are all `space_invaders`.
    """
    plain = name.strip().lower()
    for spelling in (plain, _GYM_DECORATION.sub("", plain.removesuffix(".bin"))):
        if game := _by_letters().get(_letters(spelling)):
            return game
    if _letters(spelling) in map(_letters, TWO_PLAYER):
        raise UsageError(f"{name!r} is a game for two players only; no agent can play it alone.")
    known = (*MINI_GAMES, *atari_games())
    raise UsageError(f"There is no game {name!r}.{suggestion(spelling, known)} All names: megareward games.")


def title(game: str) -> str:
    """The name as printed in the papers' tables: `space_invaders` -> `SpaceInvaders`."""
    return game.title().replace("_", "").replace("-", "")


def is_mini(game: str) -> bool:
    """Whether a canonical name means one of our own small worlds instead of an Atari game."""
    return game in MINI_GAMES


def list_games() -> list[GameRow]:
    """Everything that can be played, without starting an emulator."""
    actions = json.loads(resources.files("megareward.envs").joinpath("data/actions.json").read_text())
    mini = [GameRow(game, title(game), actions[game], "not shown") for game in MINI_GAMES]
    return mini + [GameRow(rom, title(rom), actions.get(rom), score_masks.score_display(rom)) for rom in atari_games()]


@functools.cache
def _by_letters() -> dict[str, str]:
    return {_letters(game): game for game in (*MINI_GAMES, *atari_games())} | _ALIASES


def _letters(name: str) -> str:
    """A name reduced to what every spelling shares: small letters and digits."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
