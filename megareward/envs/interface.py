"""What every batch of environments looks like to the rest of the project.

Episode ends, once and for all
------------------------------
A batch of N environments emits a stream of frames. At time t environment n shows `frames[n]` together with

  first        this frame opens an episode; whatever came before belongs to another one
  terminated   the game ended with this frame (or, if asked for, a life was lost)
  truncated    a time limit cut the episode at this frame; the game would have gone on
  episode_over the whole game ended, by either of the two (a lost life alone is not the whole game)

After `episode_over` the next action is ignored and the next frame is the `first` of a new episode, with reward 0.
(Gymnasium calls this autoreset mode NEXT_STEP.) After a lost life that counts as `terminated` the next frame is a
`first`, too, whether the environment serves the next ball itself (it may replace the agent's action) or not. So every
`terminated` is followed by a `first`, the last frame of every episode is in the stream, and the transition t -> t+1 is
real exactly if `first` is False at t+1. Only real transitions train a model, enter GAE or update the control map.
"""

from dataclasses import dataclass
from typing import Protocol

import torch

from megareward.types import Bool, Float, Int, Tensor, UInt8


@dataclass(frozen=True)
class Step:
    """What N environments show after one decision, on the device of the environments."""

    frames: UInt8[Tensor, "N px_h px_w"]
    """The newest frame; grey."""
    rewards: Float[Tensor, "N"]
    """Raw score gained by this decision. It is logged; a learner sees it only if its method says so."""
    terminated: Bool[Tensor, "N"]
    truncated: Bool[Tensor, "N"]
    first: Bool[Tensor, "N"]
    episode_over: Bool[Tensor, "N"]


class BatchedEnv(Protocol):
    """N copies of one game, stepped together. `send` and `recv` are apart so that work can be done in between."""

    @property
    def n_envs(self) -> int: ...

    @property
    def n_groups(self) -> int:
        """Environments come in this many groups that take turns (`envs.groups`); 1: all step together."""
        ...

    @property
    def n_actions(self) -> int: ...

    @property
    def action_names(self) -> tuple[str, ...]: ...

    @property
    def frame_shape(self) -> tuple[int, int]: ...

    @property
    def frame_skip(self) -> int:
        """Emulator frames per decision: 4 in Atari, 1 in the mini games."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the tensors of a `Step` live."""
        ...

    def reset(self, seed: int) -> Step:
        """Start N new episodes; the same seed gives the same episodes."""
        ...

    def send(self, actions: Int[Tensor, "N"]) -> None: ...

    def recv(self) -> Step: ...

    def state_dict(self) -> dict[str, Tensor] | None:
        """Everything needed to go on exactly from here, or None where that cannot be saved (ALE's vector)."""
        ...

    def load_state_dict(self, state: dict[str, Tensor]) -> None: ...

    def close(self) -> None: ...
