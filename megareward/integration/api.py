"""`megareward.make`: a reward for training code that is not ours.

    reward = megareward.make("mega", envs)      # or the spaces of one environment, and how many there are
    each step      reward.watch(observations, actions, rewards, terminateds, truncateds, next_observations)
    each rollout   r_int = reward.compute()    # (T, N); then advantages, then the policy's update
                   metrics = reward.update()   # the reward and the control models learn; the steps are used up

It never steps an environment. `compute` changes nothing; `watch` advances the control map, `update` learns. `compute`
and `update` also accept the rollout as `samples`, a dict of RLeXplore's six keys with shapes (T, N, ...). For steps
that were watched it is checked to be the same; a method without a control map does not need `watch`.
"""

import dataclasses
from numbers import Integral
from typing import Any, Literal

import torch
from gymnasium.spaces import Space
from gymnasium.vector import AutoresetMode

from megareward.control import config as control_presets
from megareward.control.config import ControlConfig
from megareward.errors import UsageError, suggestion
from megareward.integration.observations import FrameReader, discrete
from megareward.integration.reward import IntrinsicReward
from megareward.rewards import METHODS, Method, find_method
from megareward.rewards.settings import preset_settings
from megareward.world import World

Autoreset = Literal["same_step", "next_step"]
Preset = Literal["auto", "default", "mini", "paper", "released"]
SMALL = 64
"""Frames whose shorter side has fewer pixels get the preset `mini`."""


def make(
    method: str,
    observation_space: Space[Any] | Any,
    action_space: Space[Any] | None = None,
    n_envs: int | None = None,
    *,
    device: torch.device | str = "cpu",
    seed: int = 0,
    autoreset: Autoreset | None = None,
    preset: Preset = "auto",
    control: ControlConfig | None = None,
    tracks_control: bool | None = None,
    stack: int | None = None,
    resize: int | tuple[int, int] | None = None,
    **settings: Any,
) -> IntrinsicReward:
    """The reward of a method for `n_envs` environments with these (single) spaces: make(method, space, actions,
    n_envs). Or make(method, envs) with vector environments of Gymnasium or Stable-Baselines3, from which these three
    are read.

    autoreset       same_step: every step is a transition and next_observations hold true last frames. next_step: the
                    step after an end is a reset. See `integration.steps`. None: the mode of `envs`; same_step if only
                    spaces are given.
    preset          Settings of the models and of the method, as in our own training. auto: `mini` below 64 pixels, else
                    `default`.
    control         Settings of the control models, used unchanged; `preset` then affects only the method.
    tracks_control  True adds a control map to any method, to feed g to a policy. None: only if the method needs it.
    stack, resize   Frames per observation, if that is ambiguous; pixels to resize frames to. See `observations`.
    settings        The method's own, such as discount or normalise (`megareward train METHOD --help` lists them).
    """
    spec = find_method(method)
    if not spec.trains_policy:
        rewarding = ", ".join(name for name, known in METHODS.items() if known.trains_policy)
        raise UsageError(f"'{spec.name}' gives no reward; choose one of {rewarding}.")
    if isinstance(observation_space, Space):
        if action_space is None or n_envs is None:
            raise UsageError("A space alone says too little; pass make() the action space and n_envs too, or the envs.")
    else:
        if action_space is not None or n_envs is not None:
            raise UsageError("Environments know their spaces and number; pass make() nothing of these beside them.")
        observation_space, action_space, n_envs, says = described(observation_space)
        if autoreset not in (None, says):
            raise UsageError(f"autoreset is {autoreset!r}, but these environments say {says!r}; leave it out.")
        autoreset = says
    autoreset = autoreset or "same_step"
    if isinstance(n_envs, bool) or not isinstance(n_envs, Integral) or n_envs < 1:
        raise UsageError(f"n_envs is {n_envs}; give the number of environments, 1 or more.")
    if autoreset not in ("same_step", "next_step"):
        raise UsageError(f"autoreset is {autoreset!r}; use 'same_step' (also where you reset yourself) or 'next_step'.")
    if spec.skill:
        raise UsageError(
            f"'{spec.name}' teaches skills: your policy would have to act by the code that is drawn for it, which only "
            f"our own training does. Use `megareward train {spec.name}`, or a method without skills."
        )
    if strange := [name for name in spec.observers if name != "control"]:
        raise UsageError(f"'{spec.name}' needs the observer '{strange[0]}', which runs in our own training only.")
    if spec.has_auxiliary_loss:
        raise UsageError(f"'{spec.name}' trains the policy's own trunk, which only our own training does.")
    needs_control = "control" in spec.observers
    tracks = needs_control if tracks_control is None else tracks_control
    if needs_control and not tracks:
        raise UsageError(f"'{spec.name}' is made of the control map; leave tracks_control out, or True.")
    maps = control or ControlConfig()  # presets leave the grid alone
    reader = FrameReader(observation_space, (maps.H, maps.W) if tracks else None, stack, resize)
    if preset == "auto":
        preset = "mini" if min(reader.frame_shape) < SMALL else "default"
    if preset not in ("default", "mini", "paper", "released"):
        raise UsageError(f"preset is {preset!r}; use auto, default, mini, paper or released.")
    if control is None and preset != "default":
        maps = getattr(control_presets, preset)(maps)
    maps = dataclasses.replace(maps, latent=dataclasses.replace(maps.latent, **spec.latent))
    settings = preset_settings(spec.config, preset) | settings  # as in our own training
    if maps.oracle.lags:
        raise UsageError("control.oracle plays copies of the game, but a reward here never steps one; leave it out.")
    if maps.things.slots:
        raise UsageError("control.things is for training here; a reward beside other code has cells: leave it out.")
    device = torch.device(device)
    actions = discrete(action_space)
    world = World(int(n_envs), int(actions.n), reader.frame_shape, device, seed, cells=(maps.H, maps.W))
    next_step = autoreset == "next_step"
    return IntrinsicReward(spec, _settings(spec, settings), world, reader, actions, next_step, maps if tracks else None)


def described(envs: Any) -> tuple[Space[Any], Space[Any], int, Autoreset]:
    """The spaces of a single environment, the number of environments, and the autoreset mode of vector environments."""
    observations = getattr(envs, "single_observation_space", getattr(envs, "observation_space", None))
    actions = getattr(envs, "single_action_space", getattr(envs, "action_space", None))
    if not (isinstance(observations, Space) and isinstance(actions, Space)):
        raise UsageError(
            f"{envs!r} has no spaces; pass make() vector environments of Gymnasium or Stable-Baselines3, or the "
            f"observation space and the action space of a single environment, and n_envs."
        )
    metadata = [getattr(x, "metadata", None) or {} for x in (envs, getattr(envs, "unwrapped", None))]
    late = any(found.get("autoreset_mode") == AutoresetMode.NEXT_STEP for found in metadata)
    return observations, actions, getattr(envs, "num_envs", 1), "next_step" if late else "same_step"


def _fields(method: Method) -> list[str]:
    return [field.name for field in dataclasses.fields(method.config)]


def _settings(method: Method, settings: dict[str, Any]) -> Any:
    known = _fields(method)
    for name in settings:
        if name not in known:
            has = f"It has {', '.join(known)}" if known else "It has none"
            raise UsageError(f"'{method.name}' has no setting '{name}'.{suggestion(name, known)} {has}.")
    return method.config(**settings)
