"""How an Atari game is played. Apart from `atari.py` so that the command line can show it without loading torch."""

from dataclasses import dataclass, replace
from typing import Self

from megareward.envs.config import EnvConfig
from megareward.errors import UsageError


@dataclass(frozen=True)
class AtariConfig(EnvConfig):
    """One protocol for every game. The defaults are the released code's, DeepMind's wrappers without sticky actions;
    the paper does not say."""

    sticky: float = 0.0
    """Probability that an emulator frame repeats the previous action instead of the new one. 0 as in the authors'
    code (`NoFrameskip-v4`); 0.25 is what Machado et al. (2018) recommend."""

    noop_max: int = 30
    """An episode begins with a random number of emulator frames without input, below this number. 30 as in DQN."""

    frame_skip: int = 4
    """Emulator frames per decision; the agent sees the brighter of the last two at each pixel. 4 as in DQN."""

    life_loss_is_terminal: bool = True
    """Mark the loss of a life as `terminated`, though the game goes on; the frame after it is a `first`. True in the
    authors' code."""

    fire_reset: bool = True
    """Press FIRE once at the start of a game that has this button: Breakout waits for it. True in the authors'
    code."""

    fire_after_life: bool = True
    """Also press FIRE after each lost life, if that counts as terminal; the press replaces the agent's action. True in
    the authors' code. Without it an agent that never sees the score learns to leave the last ball unserved, and its
    games never end."""

    max_frames: int = 108_000
    """Emulator frames after which an episode is truncated, the no-op start not counted. 108,000 is half an hour."""

    full_actions: bool = False
    """Use all 18 joystick actions instead of those that do something in this game. False in the authors' code."""

    threads: int = 0
    """Emulator threads; 0: one per core, but no more than environments."""

    groups: int = 1
    """Groups of environments that take turns during training, so that the emulator runs while the GPU chooses actions;
    each has `threads` of its own. The number does not change the frames. 1: all environments step together."""

    px: int = 84
    """Height and width of a frame in pixels. 84 as in the paper."""

    hide_lives: bool = False
    """Paint out the display of lives too. Ours; the paper says nothing."""

    hide_other: bool = False
    """Paint out clocks, fuel and other counters too. Ours; the paper says nothing."""

    allow_visible_score: bool = False
    """Play a game whose score box was never measured, although the agent will see its score."""

    def __post_init__(self) -> None:
        self._require(0 <= self.sticky < 1, "sticky", "a probability below 1, such as 0.25")
        self._require(self.noop_max >= 0, "noop_max", "0 or more emulator frames")
        self._require(self.frame_skip >= 1, "frame_skip", "at least 1 emulator frame per decision")
        self._require(self.max_frames >= self.frame_skip, "max_frames", f"at least one decision ({self.frame_skip})")
        self._require(self.threads >= 0, "threads", "0 (one per core) or more")
        self._require(self.groups >= 1, "groups", "1 (all step together) or more")
        # Beyond the screen's own 160 columns the emulator would interpolate, and painted boxes would bleed.
        self._require(1 <= self.px <= 160, "px", "between 1 and 160, the width of the emulator's screen")

    def with_groups(self, groups: int) -> Self:
        return replace(self, groups=groups)

    def with_threads(self, threads: int) -> Self:
        return replace(self, threads=threads)

    def deterministic(self) -> Self:
        """The same game without sticky actions, since a clone of the emulator would not remember the last button, and
        without FIRE pressed after a lost life."""
        return replace(self, sticky=0.0, fire_after_life=False)

    def _require(self, fine: bool, field: str, wanted: str) -> None:
        if not fine:
            raise UsageError(f"--env.{field.replace('_', '-')} is {getattr(self, field)}; it must be {wanted}.")
