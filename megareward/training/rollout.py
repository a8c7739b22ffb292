"""T steps of N environments on the training device. Frames are stored once; stacks are formed when a network reads."""

import torch

from megareward.envs.interface import Step
from megareward.rewards.contract import ControlRecord, Recorded
from megareward.types import Bool, Float, Int, Tensor, UInt8


class Rollout:
    """Storage for one rollout. Frame t = 0 is the last frame of the rollout before; T frames follow it."""

    def __init__(
        self,
        T: int,
        n_envs: int,
        frame_shape: tuple[int, int],
        stack: int,
        n_streams: int,
        device: torch.device,
        keeps_score: bool,
        n_cells: int = 0,
    ) -> None:
        """`n_cells` is the size of the control map, or 0 where no tracker runs."""
        self.T, self.n_envs, self.history = T, n_envs, stack - 1
        self.device = device
        self.all_frames = torch.zeros(self.history + T + 1, n_envs, *frame_shape, dtype=torch.uint8, device=device)
        self.age = torch.zeros(T + 1, n_envs, dtype=torch.int64, device=device)
        """Frames since the first of the episode, counted no further than a stack reaches."""
        self.flags = torch.zeros(T + 1, 3, n_envs, dtype=torch.bool, device=device)
        self.actions = torch.zeros(T, n_envs, dtype=torch.int64, device=device)
        self.log_probs = torch.zeros(T, n_envs, device=device)
        self.values = torch.zeros(T + 1, n_envs, n_streams, device=device)
        self.r_ext = torch.zeros(T, n_envs, device=device) if keeps_score else None
        self.direct = torch.zeros(T + 1, n_envs, n_cells, device=device)
        self.g = torch.zeros(T + 1, n_envs, n_cells, device=device)
        self.growth = torch.zeros(T, n_envs, device=device)
        self._back = torch.arange(self.history, -1, -1, device=device)  # (stack,) oldest first
        self._envs = torch.arange(n_envs, device=device)
        self._first_here: Bool[Tensor, "T_plus_1 N"] | None = torch.zeros(T + 1, n_envs, dtype=torch.bool)
        self._staging: tuple[Tensor, Tensor] | None = None
        if device.type == "cuda":  # the device takes at its own pace what lies in pinned memory
            frames = torch.zeros(n_envs, *frame_shape, dtype=torch.uint8, pin_memory=True)
            self._staging = frames, torch.zeros(n_envs, 3, dtype=torch.bool, pin_memory=True)

    # Writing ---------------------------------------------------------------------------------------------------------

    def show(self, t: int, step: Step, rows: slice = slice(None)) -> None:
        """Frame t, as the environments sent it; all of them, or those in `rows`."""
        frames, flags = step.frames, torch.stack([step.first, step.terminated, step.truncated], -1)  # (B, 3)
        if flags.device.type == "cpu" and self._first_here is not None:
            self._first_here[t, rows] = step.first
        else:
            self._first_here = None
        if self._staging is not None and frames.device.type == "cpu":
            # Free again: since they were last written, actions of these environments were waited for.
            frames = self._staging[0][rows].copy_(frames)
            flags = self._staging[1][rows].copy_(flags).to(self.device, non_blocking=True)
        self.all_frames[self.history + t, rows].copy_(frames, non_blocking=True)
        self.flags[t, :, rows] = flags.T
        before = self.age[t - 1, rows] if t > 0 else torch.zeros_like(self.age[0, rows])
        self.age[t, rows] = (before + 1).clamp(max=self.history) * ~self.flags[t, 0, rows]
        if self.r_ext is not None and t > 0:
            self.r_ext[t - 1, rows].copy_(step.rewards, non_blocking=True)

    def act(
        self,
        index: Int[Tensor, "B"],
        actions: Int[Tensor, "B"],
        log_probs: Float[Tensor, "B"],
        values: Float[Tensor, "B S"],
    ) -> None:
        """What was decided in the samples index = t * N + n. As it lies on the device, a CUDA graph can do this."""
        self.actions.view(-1).index_copy_(0, index, actions)
        self.log_probs.view(-1).index_copy_(0, index, log_probs)
        self.values.flatten(0, 1).index_copy_(0, index, values)

    def judge(
        self,
        t: int,
        direct: Float[Tensor, "B HW"],
        g: Float[Tensor, "B HW"],
        growth: Float[Tensor, "B"],
        rows: slice = slice(None),
    ) -> None:
        """What the control tracker says of frame t, and of the transition that led to it."""
        self.direct[t, rows], self.g[t, rows] = direct, g
        if t > 0:
            self.growth[t - 1, rows] = growth

    def roll(self) -> None:
        """The newest frame, with what a stack needs of its past, becomes frame 0 of the next rollout."""
        self.all_frames[: self.history + 1] = self.all_frames[self.T :].clone()
        self.age[0] = self.age[self.T].clone()
        self.flags[0] = self.flags[self.T].clone()
        self.direct[0], self.g[0] = self.direct[self.T].clone(), self.g[self.T].clone()

    # Reading ---------------------------------------------------------------------------------------------------------

    @property
    def first(self) -> Bool[Tensor, "T_plus_1 N"]:
        return self.flags[:, 0]

    @property
    def terminated(self) -> Bool[Tensor, "T_plus_1 N"]:
        return self.flags[:, 1]

    @property
    def truncated(self) -> Bool[Tensor, "T_plus_1 N"]:
        return self.flags[:, 2]

    @property
    def all_first(self) -> Bool[Tensor, "L N"]:
        """`first` of all frames, those kept from the rollout before included: there, `age` knows."""
        before = torch.arange(self.history, 0, -1, device=self.device)[:, None] == self.age[0]  # (history, N)
        return torch.cat([before, self.first])

    @property
    def first_here(self) -> Bool[Tensor, "T N"] | None:
        """`first` of the T new frames on the CPU, if the environments live there: to be read without waiting."""
        return None if self._first_here is None else self._first_here[1:]

    def stack(self, t: int | Int[Tensor, ""], rows: slice = slice(None)) -> UInt8[Tensor, "B stack px_h px_w"]:
        """What the policy sees at frame t; in all environments, or in `rows`."""
        return self.stacks(t * self.n_envs + self._envs[rows])

    def stacks(self, index: Int[Tensor, "B"]) -> UInt8[Tensor, "B stack px_h px_w"]:
        """The same for any samples of the flattened rollout, index = t * N + n.

        Before an episode's first frame there is nothing: that frame is repeated.
        """
        t, n = index // self.n_envs, index % self.n_envs
        back = torch.minimum(self._back, self.age[t, n][:, None])  # (B, stack)
        return self.all_frames[self.history + t[:, None] - back, n[:, None]]

    def recorded(self) -> Recorded:
        frames = self.all_frames[self.history :]
        control = ControlRecord(self.direct, self.g, self.growth) if self.g.shape[-1] else None
        return Recorded(frames, self.actions, self.first, self.terminated, self.truncated, self.r_ext, control)

    # Saving ----------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Tensor]:
        """What the next rollout begins with; to be called after `roll`."""
        return {
            "frames": self.all_frames[: self.history + 1].clone(),
            "age": self.age[0].clone(),
            "flags": self.flags[0].clone(),
            "direct": self.direct[0].clone(),
            "g": self.g[0].clone(),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.all_frames[: self.history + 1] = state["frames"].to(self.device)
        self.age[0] = state["age"].to(self.device)
        self.flags[0] = state["flags"].to(self.device)
        self.direct[0], self.g[0] = state["direct"].to(self.device), state["g"].to(self.device)
