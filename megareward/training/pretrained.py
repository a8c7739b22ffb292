"""Trained agents that come with the package, one folder per game, as `megareward export RUN --to-watch` writes them."""

from pathlib import Path

import megareward
from megareward.envs.games import resolve_game
from megareward.errors import UsageError
from megareward.runs.folder import is_run

FOLDER = Path(megareward.__file__).parent / "pretrained"


def pretrained_games() -> list[str]:
    """The games for which the package has a trained agent."""
    return sorted(path.name for path in FOLDER.iterdir() if is_run(path))


def find_pretrained(game: str) -> Path:
    """The folder of the agent for a game, in any common spelling."""
    agents = pretrained_games()
    try:
        name = resolve_game(game)
    except UsageError:
        name = game
    if name not in agents:
        raise UsageError(
            f"No agent for {game!r} comes with megareward, but there is one for each of: {', '.join(agents)}."
        )
    return FOLDER / name
