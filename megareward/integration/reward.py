"""The reward of a method for another training loop: what `make` returns.

`watch` advances the control map, `compute` changes nothing, `update` learns. The order per rollout is that of our own
loop: rewards, scale, then the reward learns, then the control models.
"""

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from gymnasium.spaces import Discrete

from megareward.control.config import ControlConfig
from megareward.control.flash import flash_share, too_many_flashes
from megareward.control.learning.learner import ControlLearner
from megareward.control.models import ControlModels
from megareward.errors import UsageError
from megareward.integration.observations import FrameReader, read_flags
from megareward.integration.samples import (
    KEYS,
    Given,
    LateFlags,
    as_steps,
    check_order,
    check_watched,
    read,
    read_rollout,
)
from megareward.integration.steps import Unfolded, UserSteps, unfold
from megareward.integration.watcher import ShownControl, Watcher
from megareward.observers.control import control_fields
from megareward.observers.tracker import ControlTracker
from megareward.rewards import Method
from megareward.rewards.interface import ScaledRewards
from megareward.state import joined, part
from megareward.types import Float, Tensor, UInt8
from megareward.world import World

SETTLE_STEPS = 128
"""Steps of every environment for which `newest` returns 0 while the scale of the reward is estimated: a rollout of the
paper's PPO."""


class IntrinsicReward:
    """A reward for N environments. It never steps one."""

    def __init__(
        self,
        method: Method,
        settings: Any,
        world: World,
        reader: FrameReader,
        actions: Discrete,
        next_step: bool,
        control: ControlConfig | None,
    ) -> None:
        """`control`: settings of the control models; None: no control map."""
        self.method, self.settings, self.world, self.reader = method, settings, world, reader
        self.models: ControlModels | None = None
        self.learner: ControlLearner | None = None
        if control is not None:
            self.models = ControlModels(control, world.frame_shape, world.n_actions, world.device, world.seed)
            self.learner = ControlLearner(self.models, world.seed)
        self.n_envs, self.device, self.action_space = world.n_envs, world.device, actions
        self.rewards = ScaledRewards(method.build(settings, world), world.n_envs, world.device)
        self._watch_anew(next_step)

    def beside(self, n_envs: int) -> "IntrinsicReward":
        """A reward with the same models, which both update, for other environments, such as those of an evaluation."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        twin.world, twin.n_envs = dataclasses.replace(self.world, n_envs=n_envs), n_envs
        twin.rewards = self.rewards.beside(n_envs)
        twin._watch_anew(self.watcher.next_step)
        return twin

    def _watch_anew(self, next_step: bool) -> None:
        tracker = ControlTracker(self.models, self.n_envs, self.world.seed) if self.models else None
        self.watcher = Watcher(self.n_envs, self.world.frame_shape, self.device, next_step, tracker)
        self._seen: UInt8[Tensor, "N px_h px_w"] | None = None
        """The newest frames, to compare with the next step's observations; None after a reset by hand."""
        self._n_scaled = 0
        """Steps since the last update that `newest` has added to the statistics of the scale."""
        self._warned = False
        self._late = LateFlags(self.n_envs)

    # Each step ---------------------------------------------------------------------------------------------------

    def watch(
        self,
        observations: Any,
        actions: Any,
        rewards: Any,
        terminateds: Any,
        truncateds: Any,
        next_observations: Any,
    ) -> None:
        """One step of every environment, as arrays or tensors (N, ...); the flags are those that this step returned."""
        values = (observations, actions, rewards, terminateds, truncateds, next_observations)
        given = read(dict(zip(KEYS, values, strict=True)), (self.n_envs,), self.reader, self.action_space)
        if self._seen is not None:
            check_order(self._seen[None], given.before[None], self.watcher.opens[None])
        if self.watcher.next_step:
            self._late.look(given, self.watcher.resets)
        self.watcher.follow(given.before, given.after, given.actions, given.rewards, given.terminated, given.truncated)
        self._seen = given.after

    def restart(self, which: Any = None) -> None:
        """Call this after a reset by hand, of all environments or of a mask: their next observations open episodes."""
        mask = torch.ones(self.n_envs, dtype=torch.bool)
        if which is not None:
            mask = read_flags(which, (self.n_envs,), "which").cpu()
        self.watcher.restart(mask)
        self._seen = None

    @property
    def control(self) -> ShownControl:
        """direct and g, (N, HW) each, at the observations from which the next actions are chosen."""
        self._tracked()
        return self.watcher.control

    def picture(
        self, g: Float[Tensor, "B HW"] | None = None, size: tuple[int, int] | None = None
    ) -> Float[Tensor, "B px_h px_w"]:
        """`g` (by default that of `control`) as a picture in [0, 1], as large as the observation, for a policy."""
        models = self._tracked()
        fields = {field.name: field for field in control_fields(models.grid, models.config.latent)}
        g = self.watcher.control.g if g is None else g
        return fields["g"].painted(g, size or self.reader.picture_shape)

    def newest(self, settle_steps: int = SETTLE_STEPS) -> Float[Tensor, "N"]:
        """The reward of the step watched last, for code that cannot wait for the end of the rollout.

        It is scaled by the standard deviation up to this step, while `compute` uses the whole rollout; without
        `normalise` the two are equal. As the first estimates of the deviation are poor and may be near 0, the reward is
        0 for the first `settle_steps` steps of every environment, counted from the first raw reward that is not 0. Call
        it once after every step, or never.
        """
        steps = self.watcher.steps
        if len(steps) != self._n_scaled + 1:
            raise UsageError(
                f"{len(steps)} steps were watched and newest() was asked for {self._n_scaled} of them; ask once after "
                f"every watch(), or take compute() at the end of a rollout."
            )
        self._n_scaled += 1
        stream = unfold(UserSteps.of(steps[-1:]), shows_score=self.method.uses_score)
        raw = self.rewards.compute(stream.recorded)
        return self._sum(self.rewards.scale_at_once(raw, stream.recorded, settle_steps), stream)[0]

    # Each rollout ------------------------------------------------------------------------------------------------

    def compute(self, samples: Mapping[str, Any] | None = None) -> Float[Tensor, "T N"]:
        """The reward of every step since the last update; 0 where a step is a reset. Changes nothing.

        Call it before `update`, and before advantages are computed: rewards added later never reach the policy's loss.
        """
        stream = unfold(self._steps(samples), shows_score=self.method.uses_score)
        raw, rewards = self.rewards.compute(stream.recorded), self.rewards
        scaled = (
            rewards.scale_as_is(raw)
            if self._scaled_by_newest()
            else rewards.scale_without_learning(raw, stream.recorded)
        )
        return self._sum(scaled, stream)

    def update(self, samples: Mapping[str, Any] | None = None, log_policy: Any = None) -> dict[str, float]:
        """Learn from the steps since the last update, drop them, and return metrics.

        `log_policy` (T, N, A): the log-probability that your policy gave to every action, so that the models explain
        what actions do and not why they are taken (docs/paper.md). Without it all actions count as equally likely, as
        in the paper.
        """
        steps, start = self._steps(samples), self.watcher.start
        stream = unfold(steps, start, shows_score=self.method.uses_score)
        recorded, n_real = stream.recorded, stream.recorded.real.sum().clamp(min=1)
        metrics: dict[str, Tensor] = {}
        raw = self.rewards.compute(recorded)
        for of_stream, rewards in zip(self.rewards.streams, raw, strict=True):
            metrics[f"reward/{of_stream.name}"] = rewards.sum() / n_real
        if not self._scaled_by_newest():
            self.rewards.scale(raw, recorded)
        metrics |= self.rewards.update(recorded)
        numbers = _numbers(metrics)
        if self.learner is not None:
            frames, first = torch.cat([start.history, recorded.frames]), torch.cat([start.first, recorded.first])
            prior = None if log_policy is None else self._prior(log_policy, stream)
            numbers |= self.learner.update(frames, recorded.actions, first, prior)
            numbers["control/g"] = float(steps.g_after.sum(-1).mean())
            numbers |= self._flashes(steps)
        if not self.watcher.steps:  # samples only: keep what the next ones need
            self.watcher.note(steps)
        self.forget()
        return numbers

    def replay(self, samples: Mapping[str, Any]) -> dict[str, float]:
        """Learn from transitions in any order, as a replay buffer gives them, with any two axes first; return metrics.

        Only for methods of single transitions (rnd, curiosity, count): a control map needs the steps in order. So does
        the scale of the reward, which stays as it is. Steps watched since the last update are dropped.
        """
        if self.models is not None:
            raise UsageError(
                f"'{self.method.name}' keeps a control map, which needs every step in its order; learn from what was "
                f"watched, with update(), or take a method without a map: rnd, curiosity or count."
            )
        n_columns = tuple(samples["rewards"].shape)[-1] if "rewards" in samples else self.n_envs
        given = read_rollout(samples, n_columns, self.reader, self.action_space, self.device)
        each = Given(*(x.flatten(0, 1)[None] for x in given))  # one step of so many environments
        anyone = torch.ones(each.actions.shape[1], dtype=torch.bool)
        steps = as_steps(each, next_step=False, resets=~anyone, first=anyone)
        metrics = self.rewards.update(unfold(steps, shows_score=self.method.uses_score).recorded)
        self.forget()
        return _numbers(metrics)

    def forget(self) -> None:
        """Drop the steps since the last update without learning from them, as in an evaluation."""
        self.watcher.forget()
        self._n_scaled = 0

    # Inside ------------------------------------------------------------------------------------------------------

    def _flashes(self, steps: UserSteps) -> dict[str, float]:
        """The share of steps that change most of the screen, as a metric; warns once if it is large."""
        assert self.models is not None
        flash = self.models.config.latent.flash
        if flash == 1:
            return {}
        numbers = {"control/flashes": float(flash_share(steps.before, steps.after, ~steps.first_after, flash))}
        if not self._warned and (trouble := too_many_flashes(numbers)):
            remedy = "pass control=ControlConfig(latent=LatentConfig(flash=1.0))"
            warnings.warn(f"{trouble} If your screen always moves so, {remedy}.", stacklevel=3)
            self._warned = True
        return numbers

    def _steps(self, samples: Mapping[str, Any] | None) -> UserSteps:
        watched = UserSteps.of(self.watcher.steps) if self.watcher.steps else None
        if samples is None:
            if watched is None:
                raise UsageError("Nothing was watched since the last update; call watch() after every step.")
            return watched
        if watched is None and self.models is not None:
            raise UsageError(
                f"'{self.method.name}' keeps a control map, which is made while playing; call watch() after every step."
            )
        given = read_rollout(samples, self.n_envs, self.reader, self.action_space, self.device)
        if watched is None:
            return as_steps(given, self.watcher.next_step, self.watcher.resets, self.watcher.first)
        check_watched(given, watched)
        return watched._replace(rewards=given.rewards)

    def _prior(self, log_policy: Any, stream: Unfolded) -> Float[Tensor, "L N A"]:
        """`log_policy` in the order of the stream; 0 for resets, which have no choice."""
        given = torch.as_tensor(log_policy, dtype=torch.float32, device=self.device)
        wanted = (*stream.at.shape, int(self.action_space.n))
        if given.shape != wanted or not given.isfinite().all():
            raise UsageError(
                f"log_policy is {tuple(given.shape)}{'' if given.isfinite().all() else ' and not finite'}; it must be "
                f"finite and (steps, environments, actions) = {wanted}."
            )
        prior = given.new_zeros(*stream.recorded.actions.shape, wanted[2])
        prior[stream.at, torch.arange(wanted[1], device=self.device)] = given
        return prior

    def _scaled_by_newest(self) -> bool:
        """Whether `newest` has already added the rollout to the scales, step by step."""
        if self._n_scaled not in (0, len(self.watcher.steps)):
            raise UsageError(
                f"newest() was asked for {self._n_scaled} of {len(self.watcher.steps)} steps; ask once after every "
                f"watch(), or never."
            )
        return self._n_scaled > 0

    def _sum(self, rewards: list[Tensor], stream: Unfolded) -> Float[Tensor, "T N"]:
        weighted = [s.weight * own for s, own in zip(self.rewards.streams, rewards, strict=True)]
        return stream.of_steps(torch.stack(weighted).sum(0))

    def _tracked(self) -> ControlModels:
        if self.models is None:
            raise UsageError(f"'{self.method.name}' keeps no control map; make it with tracks_control=True.")
        return self.models

    # Saving ------------------------------------------------------------------------------------------------------

    @property
    def made_for(self) -> str:
        """What a saved state must have been made for, to be loaded."""
        px_h, px_w = self.world.frame_shape
        words = [
            self.method.name,
            f"{self.n_envs} environments",
            f"{self.world.n_actions} actions",
            f"{px_h} x {px_w} px",
        ]
        return ", ".join(words + ([f"{self.models.grid.H} x {self.models.grid.W} cells"] if self.models else []))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy by constructor arguments and state: a copy shares nothing with the original."""
        control = self.models.config if self.models else None
        parts = (self.method, self.settings, self.world, self.reader, self.action_space, self.watcher.next_step)
        return _made_again, (type(self), (*parts, control), self.state_dict())

    def state_dict(self) -> dict[str, Tensor]:
        """Everything needed to continue exactly from here, as flat names and tensors (safetensors can write them)."""
        control = self.learner.state_dict() if self.learner is not None else {}
        state = self.rewards.state_dict() | joined(watcher=self.watcher.state_dict(), control=control)
        state = {name: x.detach().clone() for name, x in state.items()}
        words = torch.tensor(list(self.made_for.encode()), dtype=torch.uint8)
        return state | {"made_for": words, "n_scaled": torch.tensor(self._n_scaled)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        if "made_for" not in state:
            raise UsageError("This is no state of a reward: it lacks 'made_for'. Pass what state_dict() returned.")
        made_for = bytes(state["made_for"].tolist()).decode()
        if made_for != self.made_for:
            raise UsageError(f"The state is of a reward for {made_for}; this one is for {self.made_for}.")

        try:
            self.rewards.load_state_dict(state)
            if self.learner is not None:
                self.learner.load_state_dict(part(state, "control"))
            self.watcher.load_state_dict(part(state, "watcher"))
        except (RuntimeError, KeyError) as mismatch:
            raise UsageError(
                f"The state does not fit; make the reward with the same settings. {mismatch}"
            ) from mismatch
        self._n_scaled, self._seen = int(state["n_scaled"]), None


def _numbers(metrics: dict[str, Tensor]) -> dict[str, float]:
    if not metrics:
        return {}
    return dict(zip(metrics, torch.stack([x.float() for x in metrics.values()]).tolist(), strict=True))


def _made_again(kind: type[IntrinsicReward], parts: tuple[Any, ...], state: dict[str, Tensor]) -> IntrinsicReward:
    reward = kind(*parts)
    reward.load_state_dict(state)
    return reward
