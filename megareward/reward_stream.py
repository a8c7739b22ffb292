"""How one reward enters the agent's return. Free of torch; rewards declare it, the agent reads it."""

from dataclasses import dataclass

from megareward.errors import UsageError


@dataclass(frozen=True)
class RewardStream:
    """One source of reward with its own value head. Ex-PPO has a single one."""

    name: str
    discount: float = 0.99
    """Per agent step (PPO paper)."""
    episodic: bool = True
    """True: an episode's end is an end. False: the return flows on into the next episode (RND, curiosity)."""
    weight: float = 1.0
    """Factor of this stream's advantage in the policy loss."""
    normalise: bool = False
    """Divide by the running standard deviation of the discounted return (`statistics.return_scale`)."""
    cut_at: str | None = None
    """Name of a recorded field that is True at the frames where the return ends as well, such as with a skill."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.discount <= 1.0:
            raise UsageError(f"The discount of stream '{self.name}' is {self.discount}; it must lie in [0, 1].")
