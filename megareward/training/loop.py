"""The one outer loop. Everything that happens in a run happens here, in this order:

  1. collect    T times: the agent acts on frame t, the environments answer with frame t+1, observers record fields
  2. reward     each stream's reward is computed and scaled
  3. agent      advantages, then PPO's update, then its statistics of the frames
  4. rewards learn, then observers: at once, or during step 1 of the next iteration
  5. everything finite? Then logs and, every few minutes, a checkpoint (`training.process`)

During the warm-up of the play protocol actions are random and PPO's update is left out, except for an auxiliary loss;
everything else is the same.
"""

import torch

from megareward.cuda.streams import CudaStreams
from megareward.envs.interface import BatchedEnv
from megareward.training.clock import Clock
from megareward.training.config import TrainConfig
from megareward.training.finite import read_finite
from megareward.training.parts import (
    make_agent,
    make_collector,
    make_game,
    make_observers,
    make_rewards,
    make_rollout,
    world_of,
)
from megareward.training.score_book import Episode


class Trainer:
    """One run in memory: environments, observers, rewards, agent, and the counters between them."""

    def __init__(self, config: TrainConfig, device: torch.device, env: BatchedEnv | None = None) -> None:
        """`env` replaces the game the config names; for tests and experiments."""
        self.config, self.device = config, device
        self.env = env or make_game(config, config.n_envs, device, in_groups=True)
        self.cuda_streams = CudaStreams(device, enabled=config.overlaps_on(device.type))
        self.generator = torch.Generator(device).manual_seed(config.seed)
        world = world_of(self.env, device, config.seed, config)
        self.observers = make_observers(config, self.env, world, streams=self.cuda_streams)
        self.rewards = make_rewards(config, world)
        self.rollout = make_rollout(config, world, self.observers, config.rollout_steps, len(self.rewards.terms))
        self.agent = make_agent(config, world, self.rollout, self.rewards.streams, self.generator)
        self.collector = make_collector(config, self.env, self.rollout, self.observers, self.agent, self.generator)
        self.score_book = self.collector.score_book
        self.iteration = 0
        self.frames = 0
        self.doing = "starts"
        """Present activity, for the progress line."""
        self.precise_clock = False
        """Synchronise with the device at every lap of the clock, for exact times at some cost in speed."""

    def begin(self, seed: int | None = None) -> None:
        """Start new games."""
        with self.cuda_streams.main():
            self.collector.begin(self.env.reset(self.config.seed if seed is None else seed))

    def iterate(self) -> tuple[dict[str, float], list[Episode]]:
        """One rollout and everything that is learnt from it. Returns metrics and the games that ended."""
        with self.cuda_streams.main():
            return self._iterate()

    def _iterate(self) -> tuple[dict[str, float], list[Episode]]:
        clock = Clock(self.precise_clock and self.device.type == "cuda")
        self.doing = "plays"
        self.collector.collect(clock, random=self.warming_up)

        recorded = self.rollout.recorded()
        raw = self.rewards.compute(recorded)
        metrics = {f"reward/{s.name}": own.mean() for s, own in zip(self.rewards.streams, raw, strict=True)}
        samples, of_advantages = self.agent.samples(self.rewards.scale(raw, recorded))
        metrics |= of_advantages
        clock.lap("reward")

        left = max(1.0 - self.iteration / self.config.iterations, 0.0)
        self.doing = "models learn" if self.warming_up else "policy learns"
        metrics |= self.agent.warm_up(samples, left) if self.warming_up else self.agent.learn(samples, left)
        clock.lap("learn")
        self.doing = "models learn"
        self.agent.observe(recorded)
        metrics |= self.rewards.update(recorded)
        clock.lap("reward")
        for observer in self.observers.values():
            metrics |= observer.learn(self.rollout)
        clock.lap("control")

        self.rollout.roll()
        numbers = read_finite(metrics, self.agent.weights())
        clock.lap("learn")  # `read_finite` waits for the device, whose last work is PPO
        per_step = self.env.n_envs * self.env.frame_skip
        episodes = self.score_book.close(self.frames, per_step)
        self.iteration += 1
        self.frames += self.rollout.T * per_step
        self.collector.n_steps = 0
        return numbers | clock.seconds, episodes

    @property
    def warming_up(self) -> bool:
        return self.iteration < self.config.warmup_iterations

    @property
    def done(self) -> bool:
        return self.iteration >= self.config.iterations

    @property
    def frames_so_far(self) -> int:
        """Frames, including those of the rollout that is being collected."""
        return self.frames + self.collector.n_steps * self.env.n_envs * self.env.frame_skip

    def finish(self) -> None:
        """Finish pending updates before the run is saved, and check that everything is finite."""
        for observer in self.observers.values():
            read_finite(observer.finish(), self.agent.weights())
