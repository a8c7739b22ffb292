"""Environments in groups that take turns, so that the emulator works while the policy acts."""

from collections.abc import Sequence

import torch

from megareward.envs.interface import BatchedEnv, Step
from megareward.types import Int, Tensor


class Groups:
    """G batches of n environments each. `reset` returns frames of all G * n; then each `send` and `recv` is for one
    group, in turn: the first `send` goes to group 0, the next to group 1, and so on.

    All groups may be under way at once; their steps are received in the order in which they were sent. The frames of an
    environment depend only on its own seed and actions, so grouping does not change them.
    """

    def __init__(self, groups: Sequence[BatchedEnv]) -> None:
        one = groups[0]
        assert all(group.n_envs == one.n_envs for group in groups), "groups must be of one size"
        self.groups, self.n_groups, self.n_envs = groups, len(groups), len(groups) * one.n_envs
        self.n_actions, self.action_names = one.n_actions, one.action_names
        self.frame_shape, self.frame_skip, self.device = one.frame_shape, one.frame_skip, one.device
        self._to_send = self._to_receive = 0

    def reset(self, seed: int) -> Step:
        """Every group gets this seed and derives from it the seeds of its own environments."""
        self._to_send = self._to_receive = 0
        steps = [vars(group.reset(seed)) for group in self.groups]
        return Step(**{name: torch.cat([step[name] for step in steps]) for name in steps[0]})

    def send(self, actions: Int[Tensor, "n"]) -> None:
        self.groups[self._to_send].send(actions)
        self._to_send = (self._to_send + 1) % self.n_groups

    def recv(self) -> Step:
        step = self.groups[self._to_receive].recv()
        self._to_receive = (self._to_receive + 1) % self.n_groups
        return step

    def state_dict(self) -> None:
        """None: groups are for emulators whose state cannot be saved."""

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.groups[0].load_state_dict(state)

    def close(self) -> None:
        for group in self.groups:
            group.close()
