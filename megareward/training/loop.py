"""The one outer loop. Everything that happens in a run happens here, in this order:

act and emulate T steps -> rewards of each stream -> advantages -> PPO update -> the rewards learn
-> finite? -> logs -> (every few minutes) checkpoint
"""

import math
import time
from pathlib import Path
from typing import Any

import torch

from megareward.envs.interface import BatchedEnv
from megareward.envs.make import make_env
from megareward.errors import RunError, UsageError
from megareward.graphs import Replay
from megareward.ppo.gae import gae
from megareward.ppo.loss import log_prob_of
from megareward.ppo.policy import Policy, sample
from megareward.ppo.update import PPO, Samples, mixed_precision
from megareward.rewards.contract import World
from megareward.training import checkpoint
from megareward.training.config import TrainConfig
from megareward.training.rollout import Rollout
from megareward.training.score_book import Episode, ScoreBook
from megareward.types import Float, Int, Tensor, UInt8


class Trainer:
    """One run in memory: environments, policy, rewards, and the counters between them."""

    def __init__(self, config: TrainConfig, device: torch.device, env: BatchedEnv | None = None) -> None:
        """`env` replaces the game the config names; for tests and experiments."""
        self.config, self.device = config, device
        ppo = config.ppo
        self.env = env or make_env(config.game, ppo.n_envs, config.env, hide_score=config.hides_score, device=device)
        env = self.env
        world = World(env.n_envs, env.n_actions, env.frame_shape, device, config.seed)
        self.streams = config.spec.build(config.reward, world)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self.policy = Policy(env.frame_shape, env.n_actions, max(len(self.streams), 1), config.policy).to(device)
        self.generator = torch.Generator(device).manual_seed(config.seed)
        self.rollout = Rollout(
            ppo.rollout,
            env.n_envs,
            env.frame_shape,
            config.policy.stack,
            max(len(self.streams), 1),
            device,
            keeps_score=config.spec.uses_score,
        )
        self.ppo = PPO(self.policy, lambda index: (self.rollout.stacks(index), None), ppo)
        self.now = torch.zeros((), dtype=torch.int64, device=device)
        self.clocks = torch.zeros(env.n_envs, env.n_actions, device=device)
        self.decide = Replay(self._decide, enabled=device.type == "cuda" and ppo.cuda_graphs)
        self.score_book = ScoreBook(env.n_envs)
        self.iteration = 0
        self.frames = 0
        self.begun = False

    # The order of events -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the games of a new run."""
        self.rollout.show(0, self.env.reset(self.config.seed))
        self.begun = True

    def iterate(self) -> tuple[dict[str, float], list[Episode]]:
        """One rollout and everything that is learnt from it."""
        clock = Clock()
        self.collect(clock)
        metrics: dict[str, Tensor] = {}
        if self.config.spec.trains_policy:
            metrics |= self.learn()
            metrics |= self.update_rewards()
        self.rollout.roll()
        numbers = self.read(metrics)
        clock.lap("learn")
        per_step = self.env.n_envs * self.env.frame_skip
        episodes = self.score_book.close(self.frames, per_step)
        self.iteration += 1
        self.frames += self.config.ppo.rollout * per_step
        return numbers | clock.seconds, episodes

    @torch.no_grad()
    def collect(self, clock: "Clock") -> None:
        """T steps: the policy acts on frame t, the environments answer with frame t+1."""
        rollout, env = self.rollout, self.env
        for t in range(rollout.T):
            self.now.fill_(t)
            self.clocks.exponential_(generator=self.generator)
            env.send(self.decide().to(env.device))
            clock.lap("act")
            step = env.recv()
            clock.lap("emulate")
            self.score_book.record(step)
            rollout.show(t + 1, step)
        if self.config.spec.trains_policy:
            rollout.values[rollout.T] = self._evaluate(rollout.stack(rollout.T))[1]

    def _decide(self) -> Int[Tensor, "N"]:
        """Act on frame `now` with the dice in `clocks`; the decision goes into the rollout."""
        if self.config.spec.trains_policy:
            logits, values = self._evaluate(self.rollout.stack(self.now))
        else:
            logits, values = torch.zeros_like(self.clocks), torch.zeros_like(self.rollout.values[0])
        actions = sample(logits, self.clocks)
        self.rollout.act(self.now, actions, log_prob_of(logits, actions), values)
        return actions

    def _evaluate(self, stack: UInt8[Tensor, "N C px_h px_w"]) -> tuple[Float[Tensor, "N A"], Float[Tensor, "N S"]]:
        with torch.no_grad(), mixed_precision(self.device, self.config.ppo):
            return self.policy(stack)

    def learn(self) -> dict[str, Tensor]:
        """Rewards, advantages, PPO."""
        config, rollout = self.config.ppo, self.rollout
        recorded = rollout.recorded()
        metrics: dict[str, Tensor] = {}
        advantages, returns = [], []
        for s, (stream, reward) in enumerate(self.streams):
            rewards = reward.compute(recorded) * recorded.real  # nothing is earned by a reset
            values = rollout.values[..., s]
            advantage = gae(
                rewards,
                values,
                rollout.first,
                rollout.terminated,
                rollout.truncated,
                stream.discount,
                config.gae_lambda,
                stream.episodic,
            )
            advantages.append(stream.weight * advantage)
            returns.append(advantage + values[:-1])
            metrics[f"reward/{stream.name}"] = rewards.mean()
            metrics[f"advantage/{stream.name}"] = advantage.abs().mean()
        samples = Samples(
            actions=rollout.actions.flatten(),
            log_probs=rollout.log_probs.flatten(),
            values=rollout.values[:-1].flatten(0, 1),
            advantages=torch.stack(advantages).sum(0).flatten(),
            returns=torch.stack(returns, dim=-1).flatten(0, 1),
            weight=recorded.real.flatten().float(),
        )
        left = max(1.0 - self.iteration / self.config.iterations, 0.0)
        terms = self.ppo.update(samples, left, self.generator)
        return metrics | {f"loss/{name}": term for name, term in terms.items()}

    def update_rewards(self) -> dict[str, Tensor]:
        recorded = self.rollout.recorded()
        metrics: dict[str, Tensor] = {}
        for stream, reward in self.streams:
            metrics |= {f"{stream.name}/{name}": value for name, value in reward.update(recorded).items()}
        return metrics

    def read(self, metrics: dict[str, Tensor]) -> dict[str, float]:
        """Bring the metrics home in one transfer; stop the run if anything it learns from or with is not finite."""
        names = list(metrics)
        weights = dict(self.policy.named_parameters())
        sums = [w.detach().abs().sum() for w in weights.values()] if names else []  # random play has nothing to check
        if not names:
            return {}
        numbers = torch.stack([*(metrics[name].float() for name in names), *sums]).tolist()
        for name, number in zip([*names, *(f"policy.{w}" for w in weights)], numbers, strict=True):
            if not math.isfinite(number):
                raise NotFiniteError(name, number)
        return dict(zip(names, numbers[: len(names)], strict=True))

    # Saving ------------------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        rewards = {f"{i}": reward.state_dict() for i, (_, reward) in enumerate(self.streams)}
        env_state = self.env.state_dict()
        return {
            **checkpoint.prefixed("policy", self.policy.state_dict()),
            **checkpoint.prefixed("optimiser", checkpoint.optimiser_tensors(self.ppo.optimiser)),
            **checkpoint.prefixed("rollout", self.rollout.state_dict()),
            **checkpoint.prefixed("env", env_state or {}),
            **{k: v for i, state in rewards.items() for k, v in checkpoint.prefixed(f"reward.{i}", state).items()},
            "generator": self.generator.get_state(),
        }

    def state(self) -> dict[str, Any]:
        return {
            "game": self.config.game,
            "method": self.config.method,
            "iteration": self.iteration,
            "frames": self.frames,
            "score_book": self.score_book.state(),
        }

    def load(self, tensors: dict[str, Tensor], state: dict[str, Any], source: Path) -> bool:
        """Go on from a checkpoint. True if the games themselves go on; False where the emulator starts new ones."""
        for what in ("game", "method"):
            if state[what] != getattr(self.config, what):
                raise UsageError(
                    f"{source} is a checkpoint of {what} '{state[what]}', but this run's config says "
                    f"'{getattr(self.config, what)}'; checkpoints cannot move between runs."
                )
        part = checkpoint.part
        try:
            self.policy.load_state_dict(part(tensors, "policy"))
        except RuntimeError as mismatch:
            raise UsageError(f"{source} does not fit this run's network: {mismatch}") from mismatch
        checkpoint.load_optimiser_tensors(self.ppo.optimiser, part(tensors, "optimiser"))
        for i, (_, reward) in enumerate(self.streams):
            reward.load_state_dict(part(tensors, f"reward.{i}"))
        self.generator.set_state(tensors["generator"])
        self.iteration, self.frames = state["iteration"], state["frames"]
        env_state = part(tensors, "env")
        exact = bool(env_state)
        self.score_book.load_state(state["score_book"], same_games=exact)
        if exact:
            self.env.load_state_dict(env_state)
            self.rollout.load_state_dict(part(tensors, "rollout"))
            self.begun = True
        else:
            # A new seed, or every restart would replay the same episodes.
            self.rollout.show(0, self.env.reset((self.config.seed + 1_000_003 * self.iteration) % 2**31))
            self.begun = True
        return exact


class NotFiniteError(RunError):
    """Something became NaN or infinite."""

    def __init__(self, name: str, number: float) -> None:
        super().__init__(f"'{name}' became {number}")
        self.name = name


class Clock:
    """Seconds of one iteration by what they were spent on."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.then = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        key = f"seconds/{name}"
        self.seconds[key] = self.seconds.get(key, 0.0) + now - self.then
        self.then = now
