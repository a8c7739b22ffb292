"""T steps of N environments on the training device: what was seen, done, and recorded about it by observers.

Frames are stored once; stacks are formed when a network reads. Everything is written through the methods below, by the
collector; rewards, observers and the agent read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F

from megareward.envs.interface import Step
from megareward.stacking import in_episode, stack_times
from megareward.state import State, joined, part
from megareward.types import Bool, Float, Int, Shaped, Tensor, UInt8
from megareward.world import World

Padding = Literal["repeat", "zeros"]
"""What a stack shows before an episode's first frame."""
Fields = Mapping[str, Shaped[Tensor, "*B"]]
"""What observers recorded, by name."""


class Field(NamedTuple):
    """Something that an observer records for every frame of every environment."""

    name: str
    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float32
    picture: tuple[int, int] | None = None
    """(H, W) of a map over the frame, whose H * W cells are the shape; a policy can see it as a channel."""
    scale: float = 1.0
    """A channel shows the map times this, so that it lies in [0, 1]."""

    def painted(self, values: Shaped[Tensor, "B HW"], size: tuple[int, int]) -> Float[Tensor, "B px_h px_w"]:
        """The map over a frame of this size, cell by cell: what a policy sees of it."""
        if self.picture is None:
            raise ValueError(f"'{self.name}' is no map over the frame; let the policy see it as a vector.")
        values = values if self.scale == 1.0 else values * self.scale
        (H, W), (px_h, px_w) = self.picture, size
        if px_h % H or px_w % W:
            return F.interpolate(values.view(-1, 1, H, W), size, mode="nearest")[:, 0]
        cells = values.view(-1, H, 1, W, 1).expand(-1, H, px_h // H, W, px_w // W)
        return cells.reshape(-1, px_h, px_w)


class Decision(NamedTuple):
    """What the agent decided for n environments."""

    actions: Int[Tensor, "n"]
    log_probs: Float[Tensor, "n"]
    values: Float[Tensor, "n S"]
    log_policy: Float[Tensor, "n A"]
    """Log-probability of every action, not only of the one that was taken."""


@dataclass(frozen=True)
class Recorded:
    """T steps of N environments as the agent saw them: frame t, action t, frame t+1. See `envs.interface`."""

    frames: UInt8[Tensor, "T_plus_1 N px_h px_w"]
    actions: Int[Tensor, "T N"]
    first: Bool[Tensor, "T_plus_1 N"]
    terminated: Bool[Tensor, "T_plus_1 N"]
    truncated: Bool[Tensor, "T_plus_1 N"]
    r_ext: Float[Tensor, "T N"] | None
    """The game's rewards; None unless the method declares that it uses the score."""
    fields: Fields
    """(T_plus_1, N, *shape) each. Row t is about frame t and the step that led to it."""

    @property
    def real(self) -> Bool[Tensor, "T N"]:
        """True where t -> t+1 is a transition inside one episode."""
        return ~self.first[1:]


class Rollout:
    """Storage for one rollout. Frame t = 0 is the last frame of the rollout before; T frames follow it."""

    def __init__(
        self,
        T: int,
        world: World,
        stack: int,
        *,
        fields: Sequence[Field] = (),
        n_streams: int = 1,
        keeps_score: bool = False,
    ) -> None:
        """`stack` frames are seen at once; `keeps_score` only for a method that declares that it uses the score."""
        N, device = world.n_envs, world.device
        self.T, self.n_envs, self.history, self.device = T, N, stack - 1, device
        self.declared = {field.name: field for field in fields}
        if len(self.declared) < len(fields):
            raise ValueError(f"Two observers record a field of the same name: {[field.name for field in fields]}.")
        self.fields = {f.name: torch.zeros(T + 1, N, *f.shape, dtype=f.dtype, device=device) for f in fields}
        self.all_frames = torch.zeros(self.history + T + 1, N, *world.frame_shape, dtype=torch.uint8, device=device)
        self.age = torch.zeros(T + 1, N, dtype=torch.int64, device=device)
        """Frames since the first of the episode, counted no further than a stack reaches."""
        self.flags = torch.zeros(T + 1, N, 3, dtype=torch.bool, device=device)
        """first, terminated, truncated."""
        self.actions = torch.zeros(T, N, dtype=torch.int64, device=device)
        self.log_probs = torch.zeros(T, N, device=device)
        self.log_policy = torch.zeros(T, N, world.n_actions, device=device)
        self.values = torch.zeros(T + 1, N, n_streams, device=device)
        self.r_ext = torch.zeros(T + 1, N, device=device) if keeps_score else None
        """Row t belongs to the step that led to frame t; row 0 belongs to the rollout before."""
        self._envs = torch.arange(N, device=device)
        self._first_here: Bool[Tensor, "T_plus_1 N"] | None = torch.zeros(T + 1, N, dtype=torch.bool)
        # The newest data of each environment: in pinned memory, from which the device copies asynchronously, ...
        self._sent: tuple[Tensor, ...] | None = None
        if device.type == "cuda":
            self._sent = tuple(t.cpu().pin_memory() for t in (self.all_frames[0], self.flags[0], self.values[0, :, 0]))
        # ... and on the device.
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
                # Safe to overwrite: since the last write, the host has waited for actions of these environments.
                tensor = self._sent[i][rows].copy_(tensor)
            self._arrived[i][rows].copy_(tensor, non_blocking=True)

    def place(self, index: Int[Tensor, "B"]) -> None:
        """The second half: store what has arrived as the samples index = t * N + n. A CUDA graph can do this."""
        n = index % self.n_envs
        frames, flags, rewards = (arrived[n] for arrived in self._arrived)
        self.all_frames.flatten(0, 1).index_copy_(0, self.history * self.n_envs + index, frames)
        self.flags.flatten(0, 1).index_copy_(0, index, flags)
        before = torch.where(index >= self.n_envs, self.age.view(-1)[index - self.n_envs], 0)  # index -1 is the last
        age = (before + 1).clamp(max=self.history) * ~flags[:, 0]
        self.age.view(-1).index_copy_(0, index, age)
        if self.r_ext is not None:
            self.r_ext.view(-1).index_copy_(0, index, rewards)

    def record(self, index: Int[Tensor, "B"], fields: Fields) -> None:
        """What an observer says of the frames at index = t * N + n."""
        for name, values in fields.items():
            self.fields[name].flatten(0, 1).index_copy_(0, index, values)

    def decide(self, index: Int[Tensor, "B"], decision: Decision) -> None:
        """What was decided in the samples index = t * N + n. As it lies on the device, a CUDA graph can do this."""
        self.actions.view(-1).index_copy_(0, index, decision.actions)
        self.log_probs.view(-1).index_copy_(0, index, decision.log_probs)
        self.log_policy.flatten(0, 1).index_copy_(0, index, decision.log_policy)
        self.value(index, decision.values)

    def value(self, index: Int[Tensor, "B"], values: Float[Tensor, "B S"]) -> None:
        """Store value estimates of these samples: with the decisions, and alone at the last frame."""
        self.values.flatten(0, 1).index_copy_(0, index, values)

    def roll(self) -> None:
        """The newest frame, with what a stack needs of its past, becomes frame 0 of the next rollout."""
        self.all_frames[: self.history + 1] = self.all_frames[self.T :].clone()
        for series in (self.age, self.flags, *self.fields.values()):
            series[0] = series[self.T].clone()

    # Reading ---------------------------------------------------------------------------------------------------------

    @property
    def first(self) -> Bool[Tensor, "T_plus_1 N"]:
        return self.flags[..., 0]

    @property
    def real(self) -> Bool[Tensor, "T N"]:
        """True where t -> t+1 is a transition inside one episode."""
        return ~self.first[1:]

    @property
    def terminated(self) -> Bool[Tensor, "T_plus_1 N"]:
        return self.flags[..., 1]

    @property
    def truncated(self) -> Bool[Tensor, "T_plus_1 N"]:
        return self.flags[..., 2]

    @property
    def all_first(self) -> Bool[Tensor, "L N"]:
        """`first` of all frames, those kept from the rollout before included, where `age` shows it."""
        before = torch.arange(self.history, 0, -1, device=self.device)[:, None] == self.age[0]  # (history, N)
        return torch.cat([before, self.first])

    @property
    def first_on_cpu(self) -> Bool[Tensor, "T N"] | None:
        """`first` of the T new frames on the CPU, if the environments live there: to be read without waiting."""
        return None if self._first_here is None else self._first_here[1:]

    def index(self, t: int | Int[Tensor, ""], rows: slice = slice(None)) -> Int[Tensor, "B"]:
        """The numbers t * N + n of the samples of one moment, of all environments or of those in `rows`."""
        return t * self.n_envs + self._envs[rows]

    def stacks(self, index: Int[Tensor, "B"], padding: Padding = "repeat") -> UInt8[Tensor, "B stack px_h px_w"]:
        """The newest frames at any samples of the flattened rollout, index = t * N + n; before an episode's first frame
        that frame again, or black ones."""
        t, n = index // self.n_envs, index % self.n_envs
        times = stack_times(self.history + t, self.age[t, n], self.history + 1)  # (B, stack)
        stacks = self.all_frames[times, n[:, None]]
        return stacks * in_episode(self.age[t, n], self.history + 1)[..., None, None] if padding == "zeros" else stacks

    def field(self, name: str, index: Int[Tensor, "B"]) -> Shaped[Tensor, "B *shape"]:
        return self.fields[name].flatten(0, 1)[index]

    def recorded(self) -> Recorded:
        frames = self.all_frames[self.history :]
        r_ext = None if self.r_ext is None else self.r_ext[1:]
        return Recorded(frames, self.actions, self.first, self.terminated, self.truncated, r_ext, self.fields)

    # Saving ----------------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """What the next rollout begins with; to be called after `roll`."""
        fields = {name: values[0].clone() for name, values in self.fields.items()}
        own = {"frames": self.all_frames[: self.history + 1].clone(), "age": self.age[0].clone()}
        return own | {"flags": self.flags[0].clone()} | joined(fields=fields)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.all_frames[: self.history + 1] = state["frames"].to(self.device)
        self.age[0] = state["age"].to(self.device)
        self.flags[0] = state["flags"].to(self.device)
        for name, values in part(state, "fields").items():
            self.fields[name][0] = values.to(self.device)
