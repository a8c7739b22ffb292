"""What an observer is: it watches every new frame online, without gradient, and records named fields about it.

    observer.fields        what it records for each frame: names, shapes, types. The rollout allocates them; rewards and
                           policy read them by name.
    prepare, advance       one step of some environments -> their fields
    learn, work, finish    when a rollout is over: learn at once, or a little in every step of the next one
    state_dict, ...        what was learnt, and apart from it what belongs to the running games

`Observer` below is a working observer that records nothing; derive from it and override what you need.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from megareward.control.config import ControlConfig
from megareward.cuda.streams import CudaStreams
from megareward.envs.interface import BatchedEnv
from megareward.rollout import Field, Fields, Rollout
from megareward.state import State
from megareward.types import Bool, Int, Tensor, UInt8
from megareward.world import World


class Seen(NamedTuple):
    """What n environments show after a step."""

    stacks: UInt8[Tensor, "n K px_h px_w"]
    """The newest frames, newest last, as many as the policy sees."""
    actions: Int[Tensor, "n"]
    """Led to the newest frame; without meaning where it is `first`."""
    first: Bool[Tensor, "n"]
    """The newest frame opens an episode."""
    envs: Int[Tensor, "n"]
    """Which environments these are."""


@dataclass(frozen=True)
class Context:
    """What an observer is built from."""

    world: World
    env: BatchedEnv
    """For observers that branch it; none may step it."""
    control: ControlConfig
    settings: Any
    """Of the method."""
    overlaps: bool = False
    """Learn while the next rollout is collected."""
    streams: CudaStreams | None = None
    learns: bool = True
    """False where a trained run only plays."""
    random_steps: int = 0
    """Decisions of random play with which the run begins."""
    starts_from: bool = False
    """Whether the run loads what the observer has learnt in another run."""
    with_relation: bool = False
    """Record the relation between cells, too: for pictures, too large for training."""


class Observer:
    """The base of all observers."""

    fields: tuple[Field, ...] = ()
    capturable: bool = False
    """Whether `advance` can be part of a CUDA graph: fixed tensors, no host sync."""
    threaded: bool = False
    """Whether it learns in a thread of its own on a CPU."""

    def prepare(self, group: int) -> None:
        """Before each `advance`: what no CUDA graph can do, such as drawing random numbers. Groups come in turn."""

    def advance(self, seen: Seen) -> Fields:
        """One step of the environments `seen.envs`, a group of them or all. Returns every declared field."""
        return {}

    def changed(self) -> list[Tensor]:
        """The tensors of its own that `advance` changes: capturing a CUDA graph restores them."""
        return []

    def new_game(self, env: int) -> None:
        """Where a trained run only plays: the next first frame of this environment opens a game, not only a life."""

    def learn(self, rollout: Rollout) -> dict[str, Tensor]:
        """Learn from a finished rollout, whose storage will be overwritten. Returns metrics, still on the device."""
        return {}

    def work(self, steps_left: int) -> None:
        """Take a share of the pending learning; `steps_left` calls are left until the next rollout is over."""

    def finish(self) -> dict[str, Tensor]:
        """Finish pending learning: the run is about to be saved. Returns metrics to be checked."""
        return {}

    def state_dict(self) -> State:
        """All that was learnt; to be called after `finish`."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from there, learning or only playing, as the context says."""

    def running_state(self) -> State:
        """What belongs to the running games."""
        return {}

    def load_running_state(self, state: Mapping[str, Tensor]) -> None:
        """After the games themselves were restored."""
