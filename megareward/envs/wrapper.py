"""Wrappers around environments, which change what an agent sees of any game."""

import torch

from megareward.envs.interface import BatchedEnv, Step
from megareward.types import Int, Tensor


class EnvWrapper:
    """A `BatchedEnv` around a `BatchedEnv`. As it stands, it passes everything through.

    A subclass overrides `change`. If that needs a state, it overrides `reset` to seed it, and `own_state` and
    `load_own_state` to save and restore it.
    """

    def __init__(self, env: BatchedEnv) -> None:
        self.env = env
        self._prefix: str = "wrapper." + (env._prefix if isinstance(env, EnvWrapper) else "")  # no name twice
        self._group = 0
        """The group whose step is received next."""

    def change(self, step: Step, rows: slice) -> Step:
        """What the agent gets instead of `step`, which shows the environments `rows`: all of them after `reset`, then
        one group at a time. The score is painted out already. Make a new step; do not write into this one's tensors.
        """
        return step

    def own_state(self) -> dict[str, Tensor]:
        """Whatever `change` needs to go on exactly from here."""
        return {}

    def load_own_state(self, state: dict[str, Tensor]) -> None:
        """Go on from what `own_state` returned."""

    # ---- BatchedEnv ----

    @property
    def n_envs(self) -> int:
        return self.env.n_envs

    @property
    def n_groups(self) -> int:
        return self.env.n_groups

    @property
    def n_actions(self) -> int:
        return self.env.n_actions

    @property
    def action_names(self) -> tuple[str, ...]:
        return self.env.action_names

    @property
    def frame_shape(self) -> tuple[int, int]:
        return self.env.frame_shape

    @property
    def frame_skip(self) -> int:
        return self.env.frame_skip

    @property
    def device(self) -> torch.device:
        return self.env.device

    def reset(self, seed: int) -> Step:
        self._group = 0
        return self.change(self.env.reset(seed), slice(0, self.n_envs))

    def send(self, actions: Int[Tensor, "n"]) -> None:
        self.env.send(actions)

    def recv(self) -> Step:
        step, n = self.env.recv(), self.n_envs // self.n_groups
        rows = slice(self._group * n, (self._group + 1) * n)
        self._group = (self._group + 1) % self.n_groups
        return self.change(step, rows)

    def state_dict(self) -> dict[str, Tensor] | None:
        """That of the wrapped environment, with our own tensors under `wrapper.`; None if it has none."""
        state = self.env.state_dict()
        if state is None:
            return None
        return state | {self._prefix + name: tensor for name, tensor in self.own_state().items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        own = {name for name in state if name.startswith(self._prefix)}
        self.env.load_state_dict({name: tensor for name, tensor in state.items() if name not in own})
        self.load_own_state({name.removeprefix(self._prefix): state[name] for name in own})
        self._group = 0

    def close(self) -> None:
        self.env.close()


def game_of(env: BatchedEnv) -> BatchedEnv:
    """The game itself, behind whatever was put around it."""
    return game_of(env.env) if isinstance(env, EnvWrapper) else env
