"""`megareward games`."""

from dataclasses import dataclass
from pathlib import Path

from megareward.cli.parsing import parse
from megareward.envs.games import list_games
from megareward.progress import Bar


@dataclass(frozen=True)
class GamesArgs:
    """List the games."""

    masks: Path | None = None
    """Write a contact sheet to this PNG: the screen of every game, and what is painted out of it."""


def command(words: list[str]) -> int:
    args: GamesArgs = parse(GamesArgs, words, "games")
    if args.masks is not None:
        from megareward.envs.contact_sheet import draw_contact_sheet

        draw_contact_sheet(args.masks, progress=Bar("games drawn"))
        print(f"Drew {args.masks}.")
        return 0
    print(f"{'name':20} {'in papers':18} {'actions':>7}  score on screen")
    for row in list_games():
        print(f"{row.name:20} {row.title:18} {row.actions if row.actions is not None else '':>7}  {row.score}")
    return 0
