"""Steps as a user's loop sees them, and the stream of frames that the rewards read.

A user's step t of N environments is (observation o_t, action a_t, reward, terminated, truncated, next observation
o'_t). What o_{t+1} is after an end depends on who resets, and when:

  same step   o'_t is the episode's true last frame and o_{t+1} opens the next episode: every step is a transition.
              Stable-Baselines3, Gymnasium's SAME_STEP, and its DISABLED, where the user resets.
  next step   o_{t+1} = o'_t is the last frame; the next step ignores its action, and o'_{t+1} opens the next episode.
              Gymnasium's NEXT_STEP, and ours (`envs.interface`).

The rewards know the second only: a stream of frames in which t -> t+1 is real exactly if frame t+1 opens no episode.
`unfold` makes it of the first: where o_t opens an episode but does not follow o'_{t-1}, it gets a place of its own
after it, and the step between the two is not real. Environments with fewer ends are filled up behind their last frame.

      user     o0 -a0-> o'0=o1 -a1-> o'1 (end)   o2 -a2-> o'2             T = 3, one end
      stream   o0       o'0          o'1         o2       o'2             first = 0 0 0 1 0, real = 1 1 0 1
      at       0        1                        3                        where the stream holds step t
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from megareward.rollout import Recorded
from megareward.types import Bool, Float, Int, Shaped, Tensor, UInt8


class UserSteps(NamedTuple):
    """Steps of N environments: T of them, with the axes *B = (T, N), or one, with *B = (N,). HW is 0 if no control
    is tracked."""

    before: UInt8[Tensor, "*B px_h px_w"]
    after: UInt8[Tensor, "*B px_h px_w"]
    actions: Int[Tensor, "*B"]
    rewards: Float[Tensor, "*B"]
    terminated: Bool[Tensor, "*B"]
    truncated: Bool[Tensor, "*B"]
    opens: Bool[Tensor, "*B"]
    """`before` opens an episode and is not `after` of the step before."""
    first_before: Bool[Tensor, "*B"]
    """`before` is the first frame of an episode."""
    first_after: Bool[Tensor, "*B"]
    """`after` is the first frame of an episode: this step was a reset, not a transition."""
    direct_before: Float[Tensor, "*B HW"]
    direct_after: Float[Tensor, "*B HW"]
    g_before: Float[Tensor, "*B HW"]
    g_after: Float[Tensor, "*B HW"]
    mega_reward: Float[Tensor, "*B"]

    @classmethod
    def of(cls, steps: Sequence["UserSteps"]) -> "UserSteps":
        """Single steps, joined along time."""
        return cls(*(torch.stack(field) for field in zip(*steps, strict=True)))

    def each(self) -> list["UserSteps"]:
        """The single steps again."""
        return [UserSteps(*fields) for fields in zip(*self, strict=True)]


class Start(NamedTuple):
    """The state before the first of some steps."""

    history: UInt8[Tensor, "P N px_h px_w"]
    """Frames before it, oldest first; before an episode's start its first frame is repeated."""
    age: Int[Tensor, "N"]
    """Frames since the first of the episode, counted no further than P."""
    terminated: Bool[Tensor, "N"]
    truncated: Bool[Tensor, "N"]

    @property
    def first(self) -> Bool[Tensor, "P N"]:
        """Which frames of the history open an episode."""
        P = len(self.history)
        return torch.arange(P, 0, -1, device=self.age.device)[:, None] == self.age


class Unfolded(NamedTuple):
    """Steps as a stream of frames."""

    recorded: Recorded
    at: Int[Tensor, "T N"]
    """Index of each step in the stream."""

    def of_steps(self, values: Shaped[Tensor, "L N"]) -> Shaped[Tensor, "T N"]:
        """From one value per transition of the stream to one per step."""
        return values.gather(0, self.at)


def unfold(steps: UserSteps, start: Start | None = None, shows_score: bool = False) -> Unfolded:
    """The stream of some steps. The game's rewards are in it only if `shows_score`."""
    T, N = steps.actions.shape
    inserted = steps.opens.clone()
    inserted[0] = False  # nothing lies before it
    at = torch.arange(T, device=inserted.device)[:, None] + inserted.cumsum(0)  # (T, N)
    L = T + int(inserted.sum(0).max())  # transitions of the stream
    n = torch.arange(N, device=at.device)

    def frames_of(before: Tensor, after: Tensor, filler: Tensor) -> Tensor:
        """(L+1, N, ...): `after` takes precedence where both give the same frame."""
        if L == T:  # nothing lies between, as in most rollouts of a few steps
            return torch.cat([before[:1], after])
        stream = filler.expand(L + 1, *before.shape[1:]).clone()
        stream[at, n] = before
        stream[at + 1, n] = after
        return stream

    def transitions_of(values: Tensor) -> Tensor:
        if L == T:
            return values
        stream = values.new_zeros(L, N)
        stream[at, n] = values
        return stream

    def ends_of(flags: Tensor, at_start: Tensor | None) -> Tensor:
        stream = flags.new_zeros(L + 1, N)
        if at_start is not None:
            stream[0] = at_start
        stream[at + 1, n] = flags
        return stream

    true = torch.ones_like(inserted[0])
    nothing = torch.zeros_like(steps.direct_before[0])
    fields = {}
    if nothing.shape[-1]:
        fields = {
            "direct": frames_of(steps.direct_before, steps.direct_after, nothing),
            "g": frames_of(steps.g_before, steps.g_after, nothing),
            "mega_reward": torch.cat([torch.zeros_like(steps.mega_reward[:1]), transitions_of(steps.mega_reward)]),
        }
    recorded = Recorded(
        frames=frames_of(steps.before, steps.after, steps.after[-1]),
        actions=transitions_of(steps.actions),
        first=frames_of(steps.first_before, steps.first_after, true),
        terminated=ends_of(steps.terminated, start.terminated if start else None),
        truncated=ends_of(steps.truncated, start.truncated if start else None),
        r_ext=transitions_of(steps.rewards) if shows_score else None,
        fields=fields,
    )
    return Unfolded(recorded, at)
