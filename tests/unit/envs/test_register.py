"""A game from outside the package: this file defines one, and one line puts it on the list."""

from dataclasses import dataclass

import pytest
import torch

from megareward.envs import games
from megareward.envs.atari_config import AtariConfig
from megareward.envs.config import EnvConfig, Game
from megareward.envs.interface import BatchedEnv, Step
from megareward.envs.make import make_env
from megareward.errors import UsageError
from megareward.types import Int, Tensor

CPU = torch.device("cpu")


@dataclass(frozen=True)
class LampConfig(EnvConfig):
    brightness: int = 200


class Lamp:
    """Action 1 lights the frame, action 0 darkens it; nothing ever ends."""

    n_actions, action_names, frame_shape = 2, ("off", "on"), (8, 10)
    frame_skip, n_groups, device = 1, 1, CPU

    def __init__(self, n_envs: int, config: LampConfig) -> None:
        self.n_envs, self.config = n_envs, config

    def reset(self, seed: int) -> Step:
        self.send(torch.zeros(self.n_envs, dtype=torch.int64))
        return self.shown(first=True)

    def send(self, actions: Int[Tensor, "N"]) -> None:
        self.on = actions

    def recv(self) -> Step:
        return self.shown(first=False)

    def shown(self, first: bool) -> Step:
        levels = (self.on * self.config.brightness).to(torch.uint8)
        no = torch.zeros(self.n_envs, dtype=torch.bool)
        frames = levels[:, None, None].expand(-1, *self.frame_shape)
        return Step(frames, torch.zeros(self.n_envs), terminated=no, truncated=no, first=no | first, episode_over=no)

    def state_dict(self) -> dict[str, Tensor]:
        return {"on": self.on}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.on = state["on"]

    def close(self) -> None:
        pass


def make(
    name: str, n_envs: int, config: LampConfig, *, hide_score: bool, device: torch.device, in_groups: bool
) -> BatchedEnv:
    return Lamp(n_envs, config)


LAMP = Game("two-lamps", "TwoLamps", LampConfig, make=f"{__name__}:make", score="not shown")


@pytest.fixture
def registered():
    before = games.list_games()
    games.register(LAMP)
    yield
    games.unregister("two-lamps")
    assert games.list_games() == before


@pytest.mark.parametrize("spelling", ["two-lamps", "TwoLamps", "two_lamps", " Two Lamps-v0 "])
def test_a_registered_game_is_found_in_any_spelling(registered, spelling):
    assert games.find_game(spelling) is LAMP
    assert games.resolve_game(spelling) == "two-lamps"


def test_a_registered_game_is_listed_last_and_suggested(registered):
    assert games.list_games()[-1] is LAMP
    with pytest.raises(UsageError, match="Did you mean two-lamps"):
        games.find_game("two-lmps")


def test_a_registered_game_is_built_with_its_own_settings(registered):
    env = make_env("TwoLamps", 3, LampConfig(brightness=7), hide_score=True, device=CPU)
    assert env.reset(0).first.all()
    env.send(torch.tensor([0, 1, 1]))
    assert env.recv().frames[:, 0, 0].tolist() == [0, 7, 7]


def test_the_settings_of_another_game_are_refused(registered):
    with pytest.raises(UsageError, match="settings of two-lamps are of class LampConfig, not AtariConfig"):
        make_env("two-lamps", 3, AtariConfig(), hide_score=True, device=CPU)


def test_a_name_is_given_once(registered):
    games.register(LAMP)  # the same row again, as when a module is loaded twice
    for name in ("Two Lamps", "pong", "MiniPong", "montezuma"):
        with pytest.raises(UsageError, match="already"):
            games.register(Game(name, "Other", LampConfig, make="nowhere:make"))
    with pytest.raises(UsageError, match="needs a letter"):
        games.register(Game("--", "Other", LampConfig, make="nowhere:make"))


def test_a_game_that_says_nothing_has_the_plain_settings_and_they_cannot_be_changed():
    config = LampConfig()
    assert (config.frame_skip, config.groups, config.threads, config.sticky) == (1, 1, 0, 0.0)
    assert config.with_groups(4) is config
    assert config.with_threads(4) is config
    assert config.deterministic() is config


def test_an_atari_game_changes_its_settings():
    config = AtariConfig(sticky=0.25, px=60)
    assert config.with_groups(4) == AtariConfig(sticky=0.25, px=60, groups=4)
    assert config.with_threads(2) == AtariConfig(sticky=0.25, px=60, threads=2)
    assert config.deterministic() == AtariConfig(px=60, fire_after_life=False)
