"""What a game says about itself: its settings (`EnvConfig`) and its row in the list of games (`Game`). Torch-free."""

from dataclasses import dataclass
from typing import Literal, Self


class EnvConfig:
    """Base class of the settings of all games. A subclass is a frozen dataclass whose fields all have defaults.

    What is set here holds for a game that has no such setting; a game that has it declares a field of that name.
    """

    frame_skip = 1
    """Emulator frames per decision."""
    groups = 1
    """Groups of environments that take turns while training. 1: all step together."""
    threads = 0
    """Emulator threads; 0 is the game's own choice."""
    sticky = 0.0
    """Probability that an emulator frame repeats the previous action instead of the new one."""
    moving_camera = False
    """Whether the player moves the camera, and the game also exists with a still one (`with_still_camera`)."""

    def with_groups(self, groups: int) -> Self:
        """The same game in so many groups; unchanged if it has none."""
        return self

    def with_threads(self, threads: int) -> Self:
        """The same game on so many emulator threads; unchanged if it has none."""
        return self

    def with_still_camera(self) -> Self:
        """The same game seen by a camera that never moves; unchanged if there is no such version."""
        return self

    def deterministic(self) -> Self:
        """The same game, determined by the recorded actions alone; unchanged if it always is."""
        return self


@dataclass(frozen=True)
class Game:
    """One row of the list of games (`games.list_games`)."""

    name: str
    """Canonical name, such as `space_invaders`; `games.find_game` knows other spellings."""
    title: str
    """The name in tables and captions, such as `SpaceInvaders`."""
    config: type[EnvConfig]
    """Class of its settings; called without arguments, it gives the defaults."""
    make: str
    """Function that builds it, as `module:name`, imported when needed. Called with (name, n_envs, config, hide_score=,
    device=, in_groups=), it returns a `BatchedEnv`."""
    actions: int | None = None
    """How many actions it has by default (in Atari: how many of the joystick's 18 do something); None if unknown."""
    score: Literal["box", "not shown", "unknown"] = "unknown"
    """`box`: the score can be painted out. `not shown`: nothing to paint. `unknown`: never measured."""
    preset: str = "default"
    """What the training preset `auto` means for this game."""
    branching: Literal["online", "replay", "none"] = "none"
    """How other actions can be tried from the same state (`megareward.counterfactual`): `online`, while the game is
    played; `replay`, in clones that replay recorded episodes; `none`, not at all."""
