"""Which rooms an agent has been in: exploration that the score does not show.

They are read from the memory of the game, which no agent sees.
"""

from megareward.counterfactual.plain_atari import PlainAtari
from megareward.envs.atari_config import AtariConfig
from megareward.envs.games import ROOM_AT
from megareward.errors import UsageError
from megareward.training.config import TrainConfig


def require_rooms(game: str) -> int:
    """The byte of this game's room; raises where it is not known."""
    if game not in ROOM_AT:
        raise UsageError(f"--rooms: it is not known where {game} keeps its room; known: {', '.join(ROOM_AT)}.")
    return ROOM_AT[game]


def game_with_memory(config: TrainConfig, n_envs: int) -> PlainAtari:
    """The game of a run, on emulators whose memory can be read."""
    require_rooms(config.game)
    assert isinstance(config.env, AtariConfig)
    return PlainAtari(config.game, n_envs, config.env, hide_score=config.hides_score)


class Rooms:
    """The rooms visited in the games under way."""

    def __init__(self, game: str, atari: PlainAtari) -> None:
        self.byte, self.atari = require_rooms(game), atari
        self.visited: list[set[int]] = [set() for _ in range(atari.n_envs)]

    def look(self) -> None:
        """After every step."""
        for rooms, room in zip(self.visited, self.atari.memory[:, self.byte], strict=True):
            rooms.add(int(room))

    def close(self, env: int) -> list[int]:
        """The rooms of the game that has just ended here; the next begins without any."""
        rooms = sorted(self.visited[env])
        self.visited[env].clear()
        return rooms
