"""Intrinsic reward for a Gymnasium vector environment, with any training code.

    envs = IntrinsicRewardWrapper(gymnasium.make_vec(...), "mega")

step returns the reward of the method instead of the game's (or added to it); the game's is in infos["score"].

The frame that a step leads to depends on metadata["autoreset_mode"]:

  NEXT_STEP   the observation. The step after an end is a reset: reward 0, and g is cleared.
  SAME_STEP   the observation, or infos["final_obs"] where an episode ended: the true last frame.
  DISABLED    the observation. You reset ended environments by reset(options={"reset_mask": ...}).

A wrapper must return a reward at every step, so rewards are scaled by those seen so far, and are 0 for the first
`settle_steps` steps, until the scale is estimated (`IntrinsicReward.newest`).
"""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from megareward.errors import UsageError
from megareward.integration.api import make
from megareward.integration.channel import Array, GChannel
from megareward.integration.observations import read_actions, read_flags, read_rewards
from megareward.integration.reward import SETTLE_STEPS, IntrinsicReward
from megareward.types import Tensor

UPDATE_EVERY = 128
"""Steps between two updates: a rollout of the paper's PPO."""


if TYPE_CHECKING:
    Wrapper = VectorWrapper[Array, Array, Array, Array, Array]
else:
    Wrapper = VectorWrapper  # takes types since Gymnasium 1.4 only


class IntrinsicRewardWrapper(Wrapper):
    """N environments whose reward is that of a method."""

    def __init__(
        self,
        env: VectorEnv[Array, Array, Array],
        reward: IntrinsicReward | str,
        *,
        mode: Literal["replace", "add"] = "replace",
        weight: float = 1.0,
        g_channel: bool = False,
        update_every: int | None = UPDATE_EVERY,
        settle_steps: int = SETTLE_STEPS,
        **settings: Any,
    ) -> None:
        """`reward`: what `make` returned, or the name of a method, made here with `settings`.

        weight        Factor of the intrinsic reward.
        g_channel     Append g to the observations, as a channel.
        update_every  Steps between two updates of the models; None: no learning, as in an evaluation.
        settle_steps  Steps of every environment, from the first raw reward that is not 0, whose reward is 0 until the
                      scale is estimated. A reward made with normalise=False has no scale and is returned at once.
        """
        super().__init__(env)
        self.autoreset = autoreset_mode(env)
        next_step = self.autoreset is AutoresetMode.NEXT_STEP
        if isinstance(reward, str):
            if g_channel:
                settings.setdefault("tracks_control", True)
            autoreset: Literal["next_step", "same_step"] = "next_step" if next_step else "same_step"
            spaces = (env.single_observation_space, env.single_action_space)
            reward = make(reward, *spaces, env.num_envs, autoreset=autoreset, **settings)
        elif settings:
            raise UsageError(f"The reward is made already; pass {', '.join(settings)} to make().")
        check_fits(reward, env.num_envs, next_step)
        if mode not in ("replace", "add"):
            raise UsageError(f"mode is {mode!r}; use 'replace' or 'add'.")
        if update_every is not None and update_every < 1:
            raise UsageError(f"update_every is {update_every}; use 1 or more, or None to learn nothing.")
        if settle_steps < 0:
            raise UsageError(f"settle_steps is {settle_steps}; use 0 or more.")
        self.reward, self.mode, self.weight, self.update_every = reward, mode, weight, update_every
        self.settle_steps = settle_steps
        self.reader = reward.reader.like(env.single_observation_space)
        self.channel = GChannel(self.reader) if g_channel else None
        if self.channel is not None:
            reward.control  # noqa: B018  refuses a reward without a control map
            self.single_observation_space = self.channel.space
            self.observation_space = batch_space(self.channel.space, env.num_envs)
        self.metrics: dict[str, float] = {}
        """Metrics of the last update."""
        self._frames: Tensor | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        mask = None if not options or "reset_mask" not in options else np.array(options["reset_mask"], bool)
        observations, infos = self.env.reset(seed=seed, options=options)
        self.reward.restart(mask)
        self._frames = self.reader.read(observations, (self.num_envs,))
        return self._show(observations, self.reward.watcher.control.g), infos

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        if self._frames is None:
            raise UsageError("step() came before the first reset(); reset the environments first.")
        observations, rewards, terminations, truncations, infos = self.env.step(actions)
        frames = self.reader.read(observations, (self.num_envs,))
        ended, finals = self._true_last(terminations | truncations, infos)
        after = frames
        if len(ended):
            after = frames.clone()
            after[torch.from_numpy(ended)] = self.reader.read(finals, (len(ended),), "final_obs")
        watcher = self.reward.watcher
        watcher.follow(
            before=self._frames,
            after=after,
            actions=read_actions(self.reward.action_space, actions, (self.num_envs,)),
            rewards=read_rewards(rewards, (self.num_envs,)),
            terminated=read_flags(terminations, (self.num_envs,), "terminations"),
            truncated=read_flags(truncations, (self.num_envs,), "truncations"),
        )
        self._frames = frames
        intrinsic = self.reward.newest(self.settle_steps).cpu().numpy().astype(np.float64)
        infos = {**infos, **_for_all("score", rewards), **_for_all("intrinsic_reward", intrinsic)}
        paid = self.weight * intrinsic + (rewards if self.mode == "add" else 0.0)
        at_last = watcher.steps[-1].g_after
        if len(ended) and self.channel is not None:
            pictured = self._show(finals, at_last[torch.from_numpy(ended).to(at_last.device)])
            infos["final_obs"] = _by_env(pictured, ended, self.num_envs)
        # With DISABLED an observation after an end still is the last frame; with SAME_STEP it opens an episode.
        g = at_last if self.autoreset is AutoresetMode.DISABLED else watcher.control.g
        shown = self._show(observations, g)
        self._learn()
        return shown, paid, terminations, truncations, infos

    def _true_last(self, ended: Array, infos: dict[str, Any]) -> tuple[Array, Array]:
        """Indices of the environments whose last observation is in infos, and these observations (SAME_STEP only)."""
        which = np.flatnonzero(ended) if self.autoreset is AutoresetMode.SAME_STEP else np.zeros(0, np.int64)
        if len(which) and infos.get("final_obs") is None:
            raise UsageError(
                f"An episode ended, but infos hold no 'final_obs', only {sorted(infos)}. Without the true last frame "
                f"the reward would be that of a reset; use autoreset mode NEXT_STEP, if the environment has it."
            )
        return which, np.array([infos["final_obs"][n] for n in which])

    def _show(self, observations: Array, g: Tensor) -> Array:
        if self.channel is None:
            return observations
        return self.channel.join(observations, self.reward.picture(g))

    def _learn(self) -> None:
        if self.update_every is None:
            self.reward.forget()
        elif len(self.reward.watcher.steps) >= self.update_every:
            self.metrics = self.reward.update()

    def state_dict(self) -> dict[str, Tensor]:
        """State of the wrapper, without the environments."""
        frames = {} if self._frames is None else {"frames": self._frames.clone()}
        return {**self.reward.state_dict(), **frames}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.reward.load_state_dict(state)
        self._frames = state["frames"].clone() if "frames" in state else None


def autoreset_mode(env: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    mode = (env.metadata or {}).get("autoreset_mode")
    if mode is None:
        raise UsageError(
            f"{env} does not say how it resets: metadata['autoreset_mode'] is missing. Set it to a member of "
            f"gymnasium.vector.AutoresetMode."
        )
    return AutoresetMode(mode)


def check_fits(reward: IntrinsicReward, n_envs: int, next_step: bool) -> None:
    if reward.n_envs != n_envs:
        raise UsageError(f"The reward is for {reward.n_envs} environments; make it with n_envs={n_envs}.")
    if reward.watcher.next_step != next_step:
        right, when = ("next_step", "on the next step") if next_step else ("same_step", "within the step, or by hand")
        raise UsageError(f"These environments are reset {when}; make the reward with autoreset='{right}'.")


def _for_all(name: str, values: Array) -> dict[str, Array]:
    """An entry of infos for all environments, with Gymnasium's mask of those that have it."""
    return {name: np.array(values), f"_{name}": np.ones(len(values), bool)}


def _by_env(rows: Array, which: Array, n_envs: int) -> Array:
    """Rows of some environments as Gymnasium's array of objects, None for the others."""
    objects = np.full(n_envs, None, dtype=object)
    for row, n in zip(rows, which, strict=True):
        objects[n] = row
    return objects
