"""Follows N environments step by step: which frames open episodes, the control map, and the steps since the last
update. Independent of the rewards.

The order of events in one step:

  1. frames that open an episode without following the last one replace it: the stack is filled with them, g is 0
  2. the new frame joins the stack and the tracker processes it (Eq. 3, 8, 10, 11); a reset's frame clears g instead
  3. the step is stored
  4. same step: an end clears the control that is shown, as the next observation belongs to another episode
"""

from typing import NamedTuple

import torch

from megareward.errors import UsageError
from megareward.integration.steps import Start, UserSteps
from megareward.observers.tracker import ControlTracker
from megareward.stacking import pushed
from megareward.state import part
from megareward.types import Bool, Float, Int, Tensor, UInt8

MOST_STEPS = 16_384
"""Most steps kept without an update. More means that `update` was forgotten, and would fill the memory."""


class ShownControl(NamedTuple):
    """The control maps at the observations from which the next actions are chosen."""

    direct: Float[Tensor, "N HW"]
    g: Float[Tensor, "N HW"]


class Watcher:
    def __init__(
        self,
        n_envs: int,
        frame_shape: tuple[int, int],
        device: torch.device,
        next_step: bool,
        tracker: ControlTracker | None,
    ) -> None:
        self.n_envs, self.device, self.next_step, self.tracker = n_envs, device, next_step, tracker
        HW, self.P = (tracker.g.shape[1], tracker.last.shape[1] - 1) if tracker else (0, 0)
        self.steps: list[UserSteps] = []
        no = torch.zeros(n_envs, dtype=torch.bool)
        # State of the episodes; on the CPU, as flags come from there.
        self.opens = ~no
        """The next observation opens an episode, and does not follow the last frame."""
        self.resets = no.clone()
        """The next step is a reset (next step only)."""
        self.first = no.clone()
        """The last frame is the first of its episode."""
        self.ends = torch.stack([no, no])
        """Terminated, truncated at the last frame."""
        # Frames and maps; on the device.
        self.frames = torch.zeros(n_envs, *frame_shape, dtype=torch.uint8, device=device)
        self.age = torch.zeros(n_envs, dtype=torch.int64, device=device)
        self.control = ShownControl(*(torch.zeros(n_envs, HW, device=device) for _ in range(2)))
        self.start = self._here()

    def restart(self, which: Bool[Tensor, "N"]) -> None:
        """Note that these environments were reset by hand: their next observation opens an episode."""
        self.opens |= which
        self.resets &= ~which
        self._clear(which)

    def follow(
        self,
        before: UInt8[Tensor, "N px_h px_w"],
        after: UInt8[Tensor, "N px_h px_w"],
        actions: Int[Tensor, "N"],
        rewards: Float[Tensor, "N"],
        terminated: Bool[Tensor, "N"],
        truncated: Bool[Tensor, "N"],
    ) -> None:
        """Follow one step. `before` is read only where it opens an episode; elsewhere it is the last frame."""
        if len(self.steps) == MOST_STEPS:
            raise UsageError(
                f"{MOST_STEPS} steps were watched without an update(); call update() once per rollout to learn from "
                f"them, or forget() to drop them."
            )
        terminated, truncated = terminated.cpu(), truncated.cpu()
        opens, first_after = self.opens, self.resets
        if (first_after & (terminated | truncated)).any():
            raise UsageError(
                "An episode ended in the very step that should have opened it. With autoreset='next_step' the step "
                "after an end is a reset; if your environments reset within the step, use autoreset='same_step'."
            )
        if opens.any():
            self._open(before.to(self.device), opens)
        if not self.steps:
            self.start = self._here()
        after, actions = after.to(self.device), actions.to(self.device)
        control, mega_reward = self._track(after, actions, first_after)
        step = UserSteps(
            before=self.frames,
            after=after,
            actions=actions,
            rewards=rewards,
            terminated=terminated,
            truncated=truncated,
            opens=opens,
            first_before=self.first,
            first_after=first_after,
            direct_before=self.control.direct,
            direct_after=control.direct,
            g_before=self.control.g,
            g_after=control.g,
            mega_reward=mega_reward,
        )
        self.steps.append(UserSteps(*(x.to(self.device) for x in step)))
        self.frames, self.control, self.first = after, control, first_after
        self.ends = torch.stack([terminated, truncated])
        ended = terminated | truncated
        none = torch.zeros_like(ended)
        self.opens, self.resets = (none, ended) if self.next_step else (ended, none)
        if self.opens.any():
            self._clear(self.opens)

    def _open(self, frames: UInt8[Tensor, "N px_h px_w"], opens: Bool[Tensor, "N"]) -> None:
        which = opens.to(self.device)
        self.frames = torch.where(which[:, None, None], frames, self.frames)
        self.first = self.first | opens
        self.ends = self.ends & ~opens
        self.age = self.age * ~which
        self._clear(opens)
        if self.tracker is None:
            return
        stack = frames[:, None].expand_as(self.tracker.last)
        if not self.tracker.started:
            self.tracker.step(stack, torch.zeros_like(self.age), which)
        else:  # nothing is controlled at a first frame, so the others need no step
            self.tracker.begin_anew(stack, which)

    def _track(
        self, after: UInt8[Tensor, "N px_h px_w"], actions: Int[Tensor, "N"], first_after: Bool[Tensor, "N"]
    ) -> tuple[ShownControl, Float[Tensor, "N"]]:
        first = first_after.to(self.device)
        self.age = (self.age + 1).clamp(max=self.P) * ~first
        if self.tracker is None:
            return self.control, torch.zeros(self.n_envs, device=self.device)
        control = self.tracker.step(pushed(self.tracker.last, after, first), actions, first)
        return ShownControl(control.direct, control.g), control.mega_reward

    def _clear(self, which: Bool[Tensor, "N"]) -> None:
        """Set control to 0 in these environments, as an episode begins."""
        mask = which.to(self.device)[:, None]
        self.control = ShownControl(*(x.masked_fill(mask, 0) for x in self.control))

    def _here(self) -> Start:
        """The last frame as the start of a rollout."""
        history = self.frames[:0, None].expand(0, *self.frames.shape)
        if self.tracker is not None:
            history = self.tracker.last[:, :-1].movedim(1, 0).clone(memory_format=torch.contiguous_format)
        return Start(history, self.age, *self.ends.to(self.device))

    def note(self, steps: UserSteps) -> None:
        """After steps that were not followed: update which environments reset next, and whose frame is a first one."""
        if self.next_step:
            self.resets = (steps.terminated | steps.truncated)[-1].cpu()
            self.first = steps.first_after[-1].cpu()

    def forget(self) -> None:
        """Drop the steps; the next ones begin where they ended."""
        self.steps = []
        self.start = self._here()

    def state_dict(self) -> dict[str, Tensor]:
        names = ("opens", "resets", "first", "ends", "frames", "age")
        state = {name: getattr(self, name).clone() for name in names}
        state |= {"direct": self.control.direct.clone(), "g": self.control.g.clone()}
        state |= {f"start.{name}": x.clone() for name, x in self.start._asdict().items()}
        if self.steps:
            state |= {f"steps.{name}": x for name, x in UserSteps.of(self.steps)._asdict().items()}
        if self.tracker is not None:
            state |= {f"tracker.{name}": x for name, x in self.tracker.state_dict().items()}
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for name in ("opens", "resets", "first", "ends"):
            setattr(self, name, state[name].cpu().clone())
        self.frames, self.age = (state[name].to(self.device, copy=True) for name in ("frames", "age"))
        self.control = ShownControl(*(state[name].to(self.device, copy=True) for name in ShownControl._fields))
        self.start = Start(**{name: x.to(self.device) for name, x in part(state, "start").items()})
        steps = {name: x.to(self.device) for name, x in part(state, "steps").items()}
        self.steps = UserSteps(**steps).each() if steps else []
        if self.tracker is not None:
            self.tracker.load_state_dict(part(state, "tracker"))
