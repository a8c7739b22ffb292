"""T steps of N environments on the training device. Frames are stored once; stacks are formed when a network reads."""

import torch

from megareward.envs.interface import Step
from megareward.rewards.interface import ControlRecord, Recorded
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
        n_actions: int = 0,
    ) -> None:
        """`n_cells` is the size of the control map, or 0 where no tracker runs; `n_actions` is for `log_policy`."""
        self.T, self.n_envs, self.history = T, n_envs, stack - 1
        self.device = device
        self.all_frames = torch.zeros(self.history + T + 1, n_envs, *frame_shape, dtype=torch.uint8, device=device)
        self.age = torch.zeros(T + 1, n_envs, dtype=torch.int64, device=device)
        """Frames since the first of the episode, counted no further than a stack reaches."""
        self.flags = torch.zeros(T + 1, n_envs, 3, dtype=torch.bool, device=device)
        """first, terminated, truncated."""
        self.actions = torch.zeros(T, n_envs, dtype=torch.int64, device=device)
        self.log_probs = torch.zeros(T, n_envs, device=device)
        self.log_policy = torch.zeros(T, n_envs, n_actions, device=device)
        """How likely every action was, not only the one that was taken."""
        self.values = torch.zeros(T + 1, n_envs, n_streams, device=device)
        self.r_ext = torch.zeros(T + 1, n_envs, device=device) if keeps_score else None
        """Row t, like row t of `growth`, belongs to the step that led to frame t; row 0 is none of this rollout's."""
        self.direct = torch.zeros(T + 1, n_envs, n_cells, device=device)
        self.g = torch.zeros(T + 1, n_envs, n_cells, device=device)
        self.growth = torch.zeros(T + 1, n_envs, device=device)
        self._back = torch.arange(self.history, -1, -1, device=device)  # (stack,) oldest first
        self._envs = torch.arange(n_envs, device=device)
        self._first_here: Bool[Tensor, "T_plus_1 N"] | None = torch.zeros(T + 1, n_envs, dtype=torch.bool)
        # What has come last of each environment: on its way in pinned memory, which a device reads at its own pace, ...
        self._sent: tuple[Tensor, ...] | None = None
        if device.type == "cuda":
            self._sent = tuple(t.cpu().pin_memory() for t in (self.all_frames[0], self.flags[0], self.values[0, :, 0]))
        # ... and where it arrives.
        self._arrived = (self.all_frames[0].clone(), self.flags[0].clone(), self.values[0, :, 0].clone())

    # Writing ---------------------------------------------------------------------------------------------------------

    def show(self, t: int, step: Step, rows: slice = slice(None)) -> None:
        """Frame t, as the environments sent it; all of them, or those in `rows`."""
        self.receive(t, step, rows)
        self.place(self.index(t, rows))

    def receive(self, t: int, step: Step, rows: slice = slice(None)) -> None:
        """The first half of `show`: bring it to the device, in three small copies at most."""
        flags = torch.stack([step.first, step.terminated, step.truncated], -1)  # (B, 3)
        if flags.device.type == "cpu" and self._first_here is not None:
            self._first_here[t, rows] = step.first
        else:
            self._first_here = None
        news = (step.frames, flags) if self.r_ext is None else (step.frames, flags, step.rewards)
        for i, tensor in enumerate(news):
            if self._sent is not None and tensor.device.type == "cpu":
                # Free again: since it was last written, actions of these environments were waited for.
                tensor = self._sent[i][rows].copy_(tensor)
            self._arrived[i][rows].copy_(tensor, non_blocking=True)

    def place(self, index: Int[Tensor, "B"]) -> None:
        """The second half: what has arrived are the samples index = t * N + n. A CUDA graph can do this."""
        n = index % self.n_envs
        frames, flags, rewards = (arrived[n] for arrived in self._arrived)
        self.all_frames.flatten(0, 1).index_copy_(0, self.history * self.n_envs + index, frames)
        self.flags.flatten(0, 1).index_copy_(0, index, flags)
        before = torch.where(index >= self.n_envs, self.age.view(-1)[index - self.n_envs], 0)  # index -1 is the last
        age = (before + 1).clamp(max=self.history) * ~flags[:, 0]
        self.age.view(-1).index_copy_(0, index, age)
        if self.r_ext is not None:
            self.r_ext.view(-1).index_copy_(0, index, rewards)

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
        index: Int[Tensor, "B"],
        direct: Float[Tensor, "B HW"],
        g: Float[Tensor, "B HW"],
        growth: Float[Tensor, "B"],
    ) -> None:
        """What the control tracker says of the frames at index = t * N + n, and of the transitions that led to them."""
        self.direct.flatten(0, 1).index_copy_(0, index, direct)
        self.g.flatten(0, 1).index_copy_(0, index, g)
        self.growth.view(-1).index_copy_(0, index, growth)

    def roll(self) -> None:
        """The newest frame, with what a stack needs of its past, becomes frame 0 of the next rollout."""
        self.all_frames[: self.history + 1] = self.all_frames[self.T :].clone()
        self.age[0] = self.age[self.T].clone()
        self.flags[0] = self.flags[self.T].clone()
        self.direct[0], self.g[0] = self.direct[self.T].clone(), self.g[self.T].clone()

    # Reading ---------------------------------------------------------------------------------------------------------

    @property
    def first(self) -> Bool[Tensor, "T_plus_1 N"]:
        return self.flags[..., 0]

    @property
    def terminated(self) -> Bool[Tensor, "T_plus_1 N"]:
        return self.flags[..., 1]

    @property
    def truncated(self) -> Bool[Tensor, "T_plus_1 N"]:
        return self.flags[..., 2]

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
        return self.stacks(self.index(t, rows))

    def index(self, t: int | Int[Tensor, ""], rows: slice = slice(None)) -> Int[Tensor, "B"]:
        """The numbers t * N + n of the samples of one moment."""
        return t * self.n_envs + self._envs[rows]

    def stacks(self, index: Int[Tensor, "B"]) -> UInt8[Tensor, "B stack px_h px_w"]:
        """The same for any samples of the flattened rollout, index = t * N + n.

        Before an episode's first frame there is nothing: that frame is repeated.
        """
        t, n = index // self.n_envs, index % self.n_envs
        back = torch.minimum(self._back, self.age[t, n][:, None])  # (B, stack)
        return self.all_frames[self.history + t[:, None] - back, n[:, None]]

    def recorded(self) -> Recorded:
        frames = self.all_frames[self.history :]
        control = ControlRecord(self.direct, self.g, self.growth[1:]) if self.g.shape[-1] else None
        r_ext = None if self.r_ext is None else self.r_ext[1:]
        return Recorded(frames, self.actions, self.first, self.terminated, self.truncated, r_ext, control)

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
