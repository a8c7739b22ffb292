"""Stable-Baselines3: a callback for the reward, a wrapper that shows g to the policy, and a bridge to vector games.

    model = PPO("CnnPolicy", HideScore(envs, "pong"))
    model.learn(10_000_000, callback=IntrinsicRewardCallback("mega", warmup_steps=614_400))

What happens in one rollout, in SB3's order:

  collect_rollouts   each step: the callback (or `ControlChannel`, if there is one) watches it. SB3 resets within the
                     step, so the true last frame is infos[n]["terminal_observation"].
                     At its end SB3 computes advantages from the game's rewards: they are thrown away.
  on_rollout_end     buffer.rewards = weight * intrinsic + score_weight * game's + gamma * V(last frame at a time limit)
                     buffer.compute_returns_and_advantage, the buffer's own; then the models learn.
  train              PPO learns from these advantages; skipped while warming up.

The last term is SB3's own: it bootstraps a time limit by adding it to the reward, and must not be lost with it.
Needs the extra: pip install "megareward[sb3]".
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError

try:
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f'This module needs Stable-Baselines3 ({missing}); install it with pip install "megareward[sb3]".',
        name=missing.name,
    ) from missing

from megareward.errors import RunError, UsageError
from megareward.integration.api import make
from megareward.integration.channel import Array
from megareward.integration.gymnasium_wrapper import check_fits
from megareward.integration.reward import IntrinsicReward
from megareward.integration.sb3_envs import (
    ControlChannel,
    HideScore,
    VectorAsVecEnv,
    find_channel,
    follow,
    refuse_normalised,
)
from megareward.types import Tensor

__all__ = ["ControlChannel", "HideScore", "IntrinsicRewardCallback", "VectorAsVecEnv"]


class IntrinsicRewardCallback(BaseCallback):
    """Puts the reward of a method into the rollout buffer, before advantages are computed."""

    def __init__(
        self,
        reward: IntrinsicReward | str,
        *,
        weight: float = 1.0,
        score_weight: float = 0.0,
        warmup_steps: int = 0,
        verbose: int = 0,
        **settings: Any,
    ) -> None:
        """`reward`: what `make` returned, or the name of a method, made for the model's spaces with `settings`.

        weight        Factor of the intrinsic reward.
        score_weight  Factor of the game's reward. 0: the agent never learns from the score.
        warmup_steps  Decisions (of all environments together) during which the models learn and the policy does not,
                      so that it plays on as initialised: nearly at random. Our own training has 20,000 for mini games
                      and 614,400 for Atari.
        """
        super().__init__(verbose)
        if not isinstance(reward, str) and settings:
            raise UsageError(f"The reward is made already; pass {', '.join(settings)} to make().")
        self._wanted, self._settings = reward, settings
        self.weight, self.score_weight, self.warmup_steps = weight, score_weight, warmup_steps
        self._held: dict[str, Any] | None = None
        """None, or while training is held back {"train": the instance's own `train`}; {} if it has only its class's."""
        self.reward: IntrinsicReward
        self.metrics: dict[str, float] = {}
        """Metrics of the last update."""

    # The order of events -----------------------------------------------------------------------------------------

    def _init_callback(self) -> None:
        model = self.model
        if not isinstance(model, OnPolicyAlgorithm):
            raise UsageError(
                f"{type(model).__name__} keeps no rollout whose advantages could be computed anew; use PPO, A2C or "
                f"another on-policy algorithm, or pay every step as it is stored: "
                f"VectorAsVecEnv(IntrinsicRewardWrapper(games, 'rnd')) (docs/own-code.md)."
            )
        channel = find_channel(self.training_env)
        if isinstance(self._wanted, IntrinsicReward):
            self.reward = self._wanted
        elif channel is not None:
            self.reward = channel.reward
            if self._settings or self._wanted != self.reward.method.name:
                raise UsageError(
                    f"The environments show g of a reward '{self.reward.method.name}'; pass it to the callback."
                )
        elif not hasattr(self, "reward"):  # a second learn() goes on with the same
            device = {"device": model.device, **self._settings}
            spaces = (model.observation_space, model.action_space)
            self.reward = make(self._wanted, *spaces, model.n_envs, **device)
        if channel is not None and channel.reward is not self.reward:
            raise UsageError("The environments show g of another reward; pass that one to the callback.")
        check_fits(self.reward, model.n_envs, next_step=False)
        self.watches = channel is None
        if self.watches:
            refuse_normalised(self.training_env)
            self.reader = self.reward.reader.like(model.observation_space)
        self._start_rollout()

    def _on_rollout_start(self) -> None:
        self._start_rollout()

    def _on_training_end(self) -> None:
        self._hold(False)

    def _start_rollout(self) -> None:
        self._hold(False)
        self.reward.forget()  # steps of a rollout that was given up
        self.scores: list[Array] = []
        self.beyond: list[Array] = []
        """gamma * V(last frame) where a time limit cut an episode."""

    def _on_step(self) -> bool:
        rewards, infos = self.locals["rewards"], self.locals["infos"]
        self.scores.append(np.array(rewards, np.float32))
        self.beyond.append(self._beyond_time_limits(self.locals["dones"], infos))
        if self.watches:
            assert isinstance(self.model, OnPolicyAlgorithm)
            started = torch.from_numpy(np.asarray(self.model._last_episode_starts, bool))
            by_hand = started & ~self.reward.watcher.opens  # learn() has reset the environments
            if by_hand.any():
                self.reward.restart(by_hand)
            before = self.reader.read(self.model._last_obs, (self.reward.n_envs,))
            now = self.reader.read(self.locals["new_obs"], (self.reward.n_envs,))
            follow(self.reward, self.reader, before, now, self.locals["actions"], rewards, self.locals["dones"], infos)
        return True

    def _on_rollout_end(self) -> None:
        model = self.model
        assert isinstance(model, OnPolicyAlgorithm)
        buffer = model.rollout_buffer
        intrinsic = self.reward.compute().cpu().numpy()  # (T, N)
        if intrinsic.shape != buffer.rewards.shape:
            raise RunError(
                f"{intrinsic.shape[0]} steps were watched, but the rollout has {buffer.rewards.shape[0]}; were the "
                f"training environments stepped by anything else?"
            )
        rewards = self.weight * intrinsic + np.stack(self.beyond)
        if self.score_weight:
            rewards = rewards + self.score_weight * np.stack(self.scores)
        buffer.rewards[:] = rewards
        new_obs, dones = self.locals["new_obs"], self.locals["dones"]
        last_values = self._values(new_obs, slice(None), dones)  # the locals of sb3-contrib are those of the last step
        buffer.compute_returns_and_advantage(last_values=last_values, dones=dones)
        self._hold(self.warming_up)
        self.metrics = self.reward.update(log_policy=self._log_policy() if self.reward.models is not None else None)
        for name, number in self.metrics.items():
            self.logger.record(f"megareward/{name}", number)
        self.logger.record("megareward/paid", float((self.weight * intrinsic).mean()))

    def _log_policy(self) -> Array:
        """(T, N, A): log-probability of every action, masked ones included, under the policy of this rollout."""
        model: Any = self.model
        buffer, logits = model.rollout_buffer, []
        for t, observations in enumerate(buffer.observations):  # one step of all environments at a time
            with torch.no_grad():
                seen = model.policy.obs_to_tensor(observations)[0]
                if hasattr(buffer, "hidden_states_pi"):  # RecurrentPPO
                    before = (buffer.hidden_states_pi[t], buffer.cell_states_pi[t], buffer.episode_starts[t])
                    hidden, cell, starts = (torch.as_tensor(x, device=model.device) for x in before)
                    distribution, _ = model.policy.get_distribution(seen, (hidden, cell), starts)
                elif hasattr(buffer, "action_masks"):  # MaskablePPO
                    distribution = model.policy.get_distribution(seen, action_masks=buffer.action_masks[t])
                else:
                    distribution = model.policy.get_distribution(seen)
                logits.append(distribution.distribution.logits.cpu().numpy())
        return np.stack(logits)

    @property
    def warming_up(self) -> bool:
        return self.num_timesteps <= self.warmup_steps

    def _hold(self, hold: bool) -> None:
        """Make the next `train` do nothing, whatever the algorithm. Only while it would run, so that a model
        saved at another time is not affected."""
        own = vars(self.model)
        if hold and self._held is None:
            self._held = {"train": own["train"]} if "train" in own else {}
            own["train"] = lambda: None
        elif not hold and self._held is not None:
            del own["train"]
            own.update(self._held)
            self._held = None

    def _beyond_time_limits(self, dones: Array, infos: list[dict[str, Any]]) -> Array:
        assert isinstance(self.model, OnPolicyAlgorithm)
        beyond = np.zeros(len(dones), np.float32)
        for n in np.flatnonzero(dones):
            last = infos[n].get("terminal_observation")
            if last is not None and infos[n].get("TimeLimit.truncated", False):
                beyond[n] = self.model.gamma * self._values(last, slice(n, n + 1), np.zeros(1, bool)).item()
        return beyond

    def _values(self, observations: Array, rows: slice, starts: Array) -> Tensor:
        """Values of observations of the environments `rows`. `starts`: which of them open episodes."""
        policy: Any = self.model.policy
        seen = policy.obs_to_tensor(observations)[0]
        with torch.no_grad():
            if "lstm_states" not in self.locals:
                return policy.predict_values(seen)
            memory = tuple(state[:, rows].contiguous() for state in self.locals["lstm_states"].vf)  # RecurrentPPO
            return policy.predict_values(seen, memory, torch.as_tensor(starts, dtype=torch.float32, device=seen.device))

    # Saving ------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Save the reward's state and the rng states beside the model: model.save(path), callback.save(path)."""
        if not hasattr(self, "reward"):
            raise UsageError("save() came before learn(); the callback has nothing to save yet.")
        state = {f"reward.{name}": x for name, x in self.reward.state_dict().items()} | random_states()
        channel = find_channel(self.training_env)
        if channel is not None:
            state["channel.frames"] = channel.frames
        file = beside(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        scratch = file.with_name(file.name + ".writing")
        scratch.write_bytes(safetensors.torch.save({name: x.cpu().contiguous() for name, x in state.items()}))
        os.replace(scratch, file)
        return file

    def load(self, path: str | Path, model: OnPolicyAlgorithm) -> None:
        """Restore what `save` wrote, rng states included; `model` was loaded from the same place, with environments."""
        file = beside(path)
        if not file.is_file():
            raise UsageError(f"There is no {file}; callback.save(path) writes it, with the path given to model.save.")
        try:
            state = safetensors.torch.load(file.read_bytes())
        except SafetensorError as damaged:
            raise RunError(f"{file} is damaged or cut off ({damaged}); take another copy, or train anew.") from damaged
        if missing := [name for name in RANDOM if name not in state]:
            raise UsageError(f"{file} lacks '{missing[0]}'; it was not written by callback.save.")
        self.init_callback(model)
        self.reward.load_state_dict({name[7:]: x for name, x in state.items() if name.startswith("reward.")})
        channel = find_channel(self.training_env)
        if channel is not None and "channel.frames" in state:
            channel.frames = state["channel.frames"]
        set_random_states(state)


RANDOM = ("random.torch", "random.numpy.keys", "random.numpy.rest")
"""Rng states that every saved file holds."""


def random_states() -> dict[str, Tensor]:
    """The rng states that SB3 uses: torch's, for actions, and numpy's, for the order of samples."""
    _, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)  # noqa: NPY002
    states = {
        "random.torch": torch.get_rng_state(),
        "random.numpy.keys": torch.from_numpy(np.asarray(keys).astype(np.int64)),
        "random.numpy.rest": torch.tensor([position, has_gauss, gauss], dtype=torch.float64),
    }
    return states | ({"random.cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {})


def set_random_states(states: dict[str, Tensor]) -> None:
    torch.set_rng_state(states["random.torch"])
    if "random.cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["random.cuda"])
    position, has_gauss, gauss = states["random.numpy.rest"].tolist()
    keys = states["random.numpy.keys"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", keys, int(position), int(has_gauss), gauss))  # noqa: NPY002


def beside(path: str | Path) -> Path:
    """The file of the reward's state, given the path of the model."""
    return Path(str(path).removesuffix(".zip") + ".megareward.safetensors")
