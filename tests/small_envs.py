"""Hand-made environments with known answers, for tests of the loop around them."""

from dataclasses import replace

import torch

from megareward.envs.interface import Step
from megareward.envs.wrapper import EnvWrapper
from megareward.types import Int, Tensor


class IdentityEnv:
    """One-step episodes: the frame shows a bright block in one of A columns; the right action names the column."""

    frame_skip = 1
    n_groups = 1
    device = torch.device("cpu")

    def __init__(self, n_envs: int = 6, n_actions: int = 4, size: int = 32) -> None:
        self.n_envs, self.n_actions, self.frame_shape = n_envs, n_actions, (size, size)
        self.action_names = tuple(f"column {a}" for a in range(n_actions))
        self.generator = torch.Generator()

    def reset(self, seed: int) -> Step:
        self.generator.manual_seed(seed)
        self.over = torch.ones(self.n_envs, dtype=torch.bool)
        self.target = torch.zeros(self.n_envs, dtype=torch.int64)
        self.send(self.target)
        return self.recv()

    def send(self, actions: Int[Tensor, "N"]) -> None:
        self.actions = actions

    def recv(self) -> Step:
        first = self.over
        new = torch.randint(self.n_actions, (self.n_envs,), generator=self.generator)
        rewards = (self.actions == self.target).float() * ~first
        self.target = torch.where(first, new, self.target)
        self.over = ~first
        frames = torch.zeros(self.n_envs, *self.frame_shape, dtype=torch.uint8)
        width = self.frame_shape[1] // self.n_actions
        for n in range(self.n_envs):
            if first[n]:
                frames[n, :, self.target[n] * width : (self.target[n] + 1) * width] = 255
        nothing = torch.zeros(self.n_envs, dtype=torch.bool)
        return Step(frames, rewards, self.over, nothing, first, self.over)

    def state_dict(self) -> None:
        return None

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


class FlippedScore(EnvWrapper):
    """Another environment with every reward of the game multiplied by -1."""

    def change(self, step: Step, rows: slice) -> Step:
        return replace(step, rewards=-step.rewards)
