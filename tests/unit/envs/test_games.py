"""Every game in every spelling, and the list shown by `megareward games`."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from megareward.envs import games
from megareward.envs.mini import MINI_GAMES
from megareward.errors import UsageError

GYM_IDS = (
    "{}",
    "ALE/{}-v5",
    "ALE/{}",
    "{}-v0",
    "{}-v5",
    "{}NoFrameskip-v4",
    "{}NoFrameskip-v0",
    "{}Deterministic-v0",
    "{}-ram-v5",
    "{}-ram-v0",
    "{}-ramNoFrameskip-v4",
    "{}-ramDeterministic-v4",
)


def test_the_games_are_those_ale_py_lists_less_the_ones_for_two_players():
    from ale_py import roms

    assert set(games.atari_games()) == set(roms.get_all_rom_ids()) - set(games.TWO_PLAYER)
    assert list(games.atari_games()) == sorted(games.atari_games())
    assert set(games.TWO_PLAYER) <= set(roms.get_all_rom_ids())


@pytest.mark.parametrize("gym_id", GYM_IDS)
def test_every_rom_is_known_by_its_gym_id(gym_id):
    for rom in games.atari_games():
        assert games.resolve_game(gym_id.format(games.title(rom))) == rom


@settings(deadline=None)
@given(data=st.data())
def test_every_game_is_known_in_any_case_with_any_separator(data):
    game = data.draw(st.sampled_from((*games.atari_games(), *MINI_GAMES)))
    words = game.replace("-", "_").split("_")
    spelling = data.draw(st.sampled_from(["", " ", "_", "-", ". ", "' "])).join(words)
    flips = data.draw(st.lists(st.booleans(), min_size=len(spelling), max_size=len(spelling)))
    spelling = "".join(c.upper() if flip else c for c, flip in zip(spelling, flips, strict=True))
    assert games.resolve_game(spelling) == game
    assert games.resolve_game(f"  {spelling}-V4 ") == game


@pytest.mark.parametrize(
    ("name", "game"),
    [
        ("pong", "pong"),
        ("PONG", "pong"),
        ("pong.bin", "pong"),
        ("pong_no_frameskip-v4", "pong"),
        ("Q*bert", "qbert"),
        ("Ms. Pac-Man", "ms_pacman"),
        ("H.E.R.O.", "hero"),
        ("Up'n Down", "up_n_down"),
        ("Yars' Revenge", "yars_revenge"),
        ("Montezuma's Revenge", "montezuma_revenge"),
        ("montezuma", "montezuma_revenge"),
        ("Robot Tank", "robotank"),
        ("3-D Tic-Tac-Toe", "tic_tac_toe_3d"),
        ("Pitfall", "pitfall"),
        ("Pitfall2-v5", "pitfall2"),
        ("mini-pong", "mini-pong"),
        ("MiniPong", "mini-pong"),
    ],
)
def test_names_as_people_write_them(name, game):
    assert games.resolve_game(name) == game


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("brekout", "breakout"),
        ("SpaceInvader-v4", "space_invaders"),
        ("mini-pongg", "mini-pong"),
        ("mspackman", "ms_pacman"),
    ],
)
def test_a_near_miss_is_refused_with_a_suggestion(name, hint):
    with pytest.raises(UsageError, match=f"There is no game '{name}'. Did you mean .*{hint}"):
        games.resolve_game(name)


@pytest.mark.parametrize("name", ["", "   ", "zzzzqqq", "-v4", "ALE/", "NoFrameskip-v4"])
def test_nonsense_is_refused_and_the_list_is_named(name):
    with pytest.raises(UsageError, match="megareward games"):
        games.resolve_game(name)


@pytest.mark.parametrize("name", ["combat", "Joust-v5", "MazeCraze", "warlords"])
def test_a_game_for_two_players_is_refused_before_it_ends_the_process(name):
    with pytest.raises(UsageError, match="two players"):
        games.resolve_game(name)


@pytest.mark.parametrize(
    ("game", "title"),
    [
        ("space_invaders", "SpaceInvaders"),
        ("up_n_down", "UpNDown"),
        ("jamesbond", "Jamesbond"),
        ("ms_pacman", "MsPacman"),
        ("tic_tac_toe_3d", "TicTacToe3D"),
        ("mini-pong", "MiniPong"),
    ],
)
def test_titles_are_those_of_the_papers_tables(game, title):
    assert games.title(game) == title


def test_the_list_has_every_game_once_with_its_actions_and_its_score_display():
    rows = {row.name: row for row in games.list_games()}
    assert list(rows) == [*MINI_GAMES, *games.atari_games()]
    assert (rows["breakout"].title, rows["breakout"].actions, rows["breakout"].score) == ("Breakout", 4, "box")
    assert all(row.title == games.title(name) for name, row in rows.items())
    assert rows["yars_revenge"].score == "not shown"
    assert rows["tetris"].score == "unknown"
    assert all(3 <= rows[rom].actions <= 18 for rom in games.atari_games())


@pytest.mark.parametrize("rom", ["freeway", "breakout", "amidar", "turmoil", "journey_escape", "seaquest"])
def test_the_listed_number_of_actions_is_the_emulators(rom):
    from ale_py import ALEInterface, LoggerMode, roms

    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.loadROM(roms.get_rom_path(rom))
    assert games.find_game(rom).actions == len(ale.getMinimalActionSet())


@pytest.mark.parametrize("game", MINI_GAMES)
def test_the_listed_number_of_actions_is_the_mini_games(game):
    from megareward.envs.mini.games import make_mini

    assert games.find_game(game).actions == make_mini(game, 1).n_actions


def test_naming_and_listing_games_loads_neither_torch_nor_the_emulator():
    code = (
        "import sys; from megareward.envs import games, atari_config; games.resolve_game('pong'); games.list_games();"
        "print([name for name in ('torch', 'ale_py', 'numpy', 'gymnasium') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
