"""Environments in Stable-Baselines3's form: g as a channel, and Gymnasium's vector environments.

SB3 resets within the step: observations after an end open the next episode, and the true last frame is in
infos[n]["terminal_observation"]. Import these from `integration.stable_baselines3`.
"""

from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecNormalize

from megareward.envs import score_masks
from megareward.envs.games import resolve_game
from megareward.errors import UsageError
from megareward.integration.channel import Array, GChannel
from megareward.integration.gymnasium_wrapper import autoreset_mode, check_fits
from megareward.integration.observations import FrameReader, channel_axis, read_actions
from megareward.integration.reward import IntrinsicReward
from megareward.types import Tensor, UInt8


class ControlChannel(VecEnvWrapper):
    """Shows g to the policy as one more channel of the observation, terminal observations included.

    The wrapper watches every step, as g must be known before the next action; the callback then does not. For an
    evaluation, wrap its environments with `reward.beside(n_envs)` and training=False.
    """

    def __init__(self, venv: VecEnv, reward: IntrinsicReward, training: bool = True) -> None:
        check_fits(reward, venv.num_envs, next_step=False)
        refuse_normalised(venv)
        reward.control  # noqa: B018  refuses a reward without a control map
        self.reward, self.training = reward, training
        self.reader = reward.reader.like(venv.observation_space)
        self.channel = GChannel(self.reader)
        self.frames: UInt8[Tensor, "N px_h px_w"]
        """Frames of the newest observations."""
        super().__init__(venv, observation_space=self.channel.space)

    def reset(self) -> Array:
        observations = np.asarray(self.venv.reset())
        self.reward.restart()
        self.frames = self.reader.read(observations, (self.num_envs,))
        return self.channel.join(observations, self.reward.picture())

    def step_async(self, actions: Array) -> None:
        self._actions = actions
        self.venv.step_async(actions)

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        observations, rewards, dones, infos = self.venv.step_wait()
        observations = np.asarray(observations)
        now = self.reader.read(observations, (self.num_envs,))
        follow(self.reward, self.reader, self.frames, now, self._actions, rewards, dones, infos)
        self.frames = now
        g = self.reward.watcher.steps[-1].g_after
        for n in np.flatnonzero(dones):
            last = np.asarray(infos[n]["terminal_observation"])[None]
            infos[n]["terminal_observation"] = self.channel.join(last, self.reward.picture(g[n : n + 1]))[0]
        if not self.training:
            self.reward.forget()
        return self.channel.join(observations, self.reward.picture()), rewards, dones, infos


class HideScore(VecEnvWrapper):
    """Paints the score of an Atari game out of observations, so that nothing can be learnt from it.

    Works with any layout that the rewards read (`observations`), as long as it shows the whole screen, shrunk or not.
    Put it below everything else that reads frames. The boxes are those of our own training (docs/games.md).
    """

    def __init__(self, venv: VecEnv, game: str) -> None:
        if find_channel(venv) is not None:
            raise UsageError("ControlChannel has seen the score already; put HideScore below it, next to the games.")
        self.rom = resolve_game(game)
        score_masks.require_boxes(self.rom, allow_visible_score=False)
        shape = venv.observation_space.shape or ()
        self.channels_last = channel_axis(shape) == -1
        *_, px_h, px_w = shape[:-1] if self.channels_last else shape
        self.boxes = score_masks.frame_boxes(self.rom, (px_h, px_w), score=True)
        super().__init__(venv)

    def reset(self) -> Array:
        return self._painted(np.asarray(self.venv.reset()))

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        observations, rewards, dones, infos = self.venv.step_wait()
        for n in np.flatnonzero(dones):
            infos[n]["terminal_observation"] = self._painted(np.asarray(infos[n]["terminal_observation"]))
        return self._painted(np.asarray(observations)), rewards, dones, infos

    def _painted(self, observations: Array) -> Array:
        painted = observations.copy()
        score_masks.paint(np.moveaxis(painted, -1, 0) if self.channels_last else painted, self.boxes)
        return painted


class VectorAsVecEnv(VecEnv):
    """A Gymnasium vector environment with autoreset mode SAME_STEP, as a `VecEnv` of Stable-Baselines3."""

    def __init__(self, env: VectorEnv[Array, Array, Array]) -> None:
        if autoreset_mode(env) is not AutoresetMode.SAME_STEP:
            raise UsageError(
                f"{env} has autoreset mode {autoreset_mode(env).name}; Stable-Baselines3 expects a reset within the "
                f"step. Make it with autoreset_mode=AutoresetMode.SAME_STEP."
            )
        self.env = env
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> Array:
        observations, _ = self.env.reset(seed=self._seeds[0])
        self._reset_seeds()
        return observations

    def step_async(self, actions: Array) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        observations, rewards, terminations, truncations, infos = self.env.step(self._actions)
        dones = terminations | truncations
        each: list[dict[str, Any]] = [{"TimeLimit.truncated": bool(t)} for t in truncations & ~terminations]
        for n in np.flatnonzero(dones):
            each[n]["terminal_observation"] = infos["final_obs"][n]
        return observations, rewards.astype(np.float32), dones, each

    def close(self) -> None:
        self.env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.env, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        setattr(self.env, attr_name, value)

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        return [getattr(self.env, method_name)(*method_args, **method_kwargs) for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]


def follow(
    reward: IntrinsicReward,
    reader: FrameReader,
    before: UInt8[Tensor, "N px_h px_w"],
    now: UInt8[Tensor, "N px_h px_w"],
    actions: Array,
    rewards: Array,
    dones: Array,
    infos: list[dict[str, Any]],
) -> None:
    """Let the reward watch one step given in SB3's form."""
    after = now
    ended = np.flatnonzero(dones)
    if len(ended):
        missing = [n for n in ended if infos[n].get("terminal_observation") is None]
        if missing:
            raise UsageError(
                f"Environment {missing[0]} ended without a 'terminal_observation' in its info; the true last frame is "
                f"needed. A VecEnv that resets by itself must report it."
            )
        lasts = np.stack([np.asarray(infos[n]["terminal_observation"]) for n in ended])
        after = now.clone()
        after[torch.from_numpy(ended)] = reader.read(lasts, (len(ended),), "terminal_observation")
    truncated = np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos]) & dones
    reward.watcher.follow(
        before=before,
        after=after,
        actions=read_actions(reward.action_space, actions, (reward.n_envs,)),
        rewards=torch.from_numpy(np.array(rewards, np.float32)),
        terminated=torch.from_numpy(dones & ~truncated),
        truncated=torch.from_numpy(truncated),
    )


def find_channel(env: VecEnv | None) -> ControlChannel | None:
    while env is not None and not isinstance(env, ControlChannel):
        env = getattr(env, "venv", None)
    return env


def refuse_normalised(env: VecEnv | None) -> None:
    """Refuse frames with a running normalisation: the same screen would get other rewards as the scale changes."""
    while env is not None:
        if isinstance(env, VecNormalize) and env.norm_obs:
            raise UsageError(
                "VecNormalize(norm_obs=True) changes the frames while it learns, and the reward with them. Use "
                "norm_obs=False (CnnPolicy scales images itself), or put a ControlChannel below it."
            )
        env = getattr(env, "venv", None)
