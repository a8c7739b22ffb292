"""The one outer loop. Everything that happens in a run happens here, in this order:

  1. T times: the policy acts on frame t, the environments answer with frame t+1, the tracker judges its control
  2. each stream's reward is computed, scaled and turned into advantages
  3. PPO update
  4. the rewards learn, then the control models, at once or during step 1 of the next iteration (`control.schedule`)
  5. everything finite? Then logs and, every few minutes, a checkpoint (`training.run`)

During the warm-up of the play protocol actions are random and step 3 is left out; everything else is the same.
"""

from pathlib import Path
from typing import Any

import torch

from megareward.control.flash import flash_share
from megareward.control.learning.schedule import Schedule
from megareward.control.models import ControlModels, chosen
from megareward.cuda.graphs import CapturedFunction
from megareward.cuda.streams import CudaStreams
from megareward.envs.interface import BatchedEnv, Step
from megareward.envs.make import make_env
from megareward.errors import UsageError
from megareward.observers.oracle import OracleTracker
from megareward.observers.tracker import ControlTracker
from megareward.ppo.gae import gae
from megareward.ppo.loss import log_prob_of
from megareward.ppo.policy import Policy, sample
from megareward.ppo.update import PPO, Samples, mixed_precision
from megareward.rewards.interface import World
from megareward.rng import set_rng_state
from megareward.runs import checkpoint
from megareward.statistics.return_scale import ReturnScale
from megareward.training.clock import Clock
from megareward.training.config import TrainConfig
from megareward.training.finite import read_finite
from megareward.training.rollout import Rollout
from megareward.training.score_book import Episode, ScoreBook
from megareward.training.tracking import as_channel, make_models, make_tracker
from megareward.types import Float, Int, Tensor, UInt8


class Trainer:
    """One run in memory: environments, policy, rewards, and the counters between them."""

    def __init__(self, config: TrainConfig, device: torch.device, env: BatchedEnv | None = None) -> None:
        """`env` replaces the game the config names; for tests and experiments."""
        self.config, self.device = config, device
        ppo = config.ppo
        self.env = env or make_env(
            config.game, ppo.n_envs, config.env, hide_score=config.hides_score, device=device, in_groups=True
        )
        env = self.env
        n_groups = getattr(env, "n_groups", 1)  # see `envs.groups`; everything else is one group
        n = env.n_envs // n_groups
        self.groups = [slice(start, start + n) for start in range(0, env.n_envs, n)]
        overlaps = config.overlaps_on(device.type)
        self.cuda_streams = CudaStreams(device, enabled=overlaps)
        self.tracker: ControlTracker | OracleTracker | None = None
        self.schedule: Schedule | None = None
        if config.tracks_control:
            self.tracker = make_tracker(config, env, device, config.seed, n_groups)
            self.models = self.tracker.models
            if isinstance(self.models, ControlModels):
                learner = make_models(config, env, device, config.seed) if overlaps else self.models
                self.schedule = Schedule(learner, self.models if overlaps else None, self.cuda_streams)
                self.models = learner
        world = World(env.n_envs, env.n_actions, env.frame_shape, device, config.seed)
        self.streams = config.spec.build(config.reward, world)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self.policy = Policy(
                env.frame_shape, env.n_actions, max(len(self.streams), 1), config.policy, int(config.shows_g)
            ).to(device)
        if device.type == "cuda":
            self.policy.put_features_last()
        self.scales = [ReturnScale(env.n_envs, stream.discount, device) for stream, _ in self.streams]
        self.generator = torch.Generator(device).manual_seed(config.seed)
        self.rollout = Rollout(
            ppo.rollout,
            env.n_envs,
            env.frame_shape,
            config.policy.stack,
            max(len(self.streams), 1),
            device,
            keeps_score=config.spec.uses_score,
            n_cells=self.models.grid.n_cells if self.tracker else 0,
            n_actions=env.n_actions,
        )
        self.ppo = PPO(self.policy, self.observe, ppo)
        self.now = torch.zeros((), dtype=torch.int64, device=device)
        self.turn = torch.zeros((), dtype=torch.int64, device=device)
        """The first environment of the group that acts."""
        self._envs = torch.arange(env.n_envs, device=device)
        self.skilled = torch.ones((), device=device)
        self.clocks = torch.zeros(env.n_envs, env.n_actions, device=device)
        graphs = device.type == "cuda" and ppo.cuda_graphs
        self.decide = CapturedFunction(self._decide, enabled=graphs)
        self.look = CapturedFunction(
            self._look,
            enabled=graphs and chosen(config.control.execution.graph, device),
            before=self.tracker.keep if isinstance(self.tracker, ControlTracker) else lambda: None,
            after=self.tracker.put_back if isinstance(self.tracker, ControlTracker) else lambda: None,
        )
        self.score_book = ScoreBook(env.n_envs)
        self.iteration = 0
        self.frames = 0
        self.precise_clock = False
        """Wait for the device at every lap of the clock: true shares of the time, at some cost in speed."""

    # The order of events -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the games of a new run."""
        self._open(self.env.reset(self.config.seed))

    def _open(self, step: Step) -> None:
        with self.cuda_streams.main():
            self.rollout.show(0, step)
            for group, rows in enumerate(self.groups):
                self._track(0, group, rows)

    def iterate(self) -> tuple[dict[str, float], list[Episode]]:
        """One rollout and everything that is learnt from it."""
        with self.cuda_streams.main():
            return self._iterate()

    def _iterate(self) -> tuple[dict[str, float], list[Episode]]:
        clock = Clock(self.precise_clock and self.device.type == "cuda")
        self.collect(clock)
        metrics: dict[str, Tensor] = {}
        if self.config.spec.trains_policy:
            samples = self.reward(metrics)
            clock.lap("reward")
            metrics |= self.learn(samples)
            clock.lap("learn")
            metrics |= self.update_rewards()
            clock.lap("reward")
        if self.tracker is not None:
            metrics |= self.update_control()
            clock.lap("control")
        self.rollout.roll()
        numbers = self.read(metrics)
        clock.lap("learn")  # the device is waited for here, and PPO is what it does last
        per_step = self.env.n_envs * self.env.frame_skip
        episodes = self.score_book.close(self.frames, per_step)
        self.iteration += 1
        self.frames += self.config.ppo.rollout * per_step
        return numbers | clock.seconds, episodes

    @torch.no_grad()
    def collect(self, clock: Clock) -> None:
        """T steps: the policy acts on frame t, the environments answer with frame t+1.

        Group by group, each in its turn: while one is answered, the others emulate. In between, the control models
        learn from the rollout before.
        """
        rollout, env = self.rollout, self.env
        self.skilled.fill_(float(not self.warming_up))
        for t in range(rollout.T + 1):
            self.now.fill_(t)
            if t < rollout.T:
                self.clocks.exponential_(generator=self.generator)
            for group, rows in enumerate(self.groups):
                self.turn.fill_(rows.start)
                if t > 0:
                    step = env.recv()
                    clock.lap("emulate")
                    self.score_book.record(step)
                    rollout.receive(t, step, rows)
                    if isinstance(self.tracker, ControlTracker):
                        self.tracker.prepare(group)
                    self.look()
                    if isinstance(self.tracker, OracleTracker):
                        self._track(t, group, rows)
                    clock.lap("track")
                if t < rollout.T:
                    actions = self.decide().to(env.device)
                    clock.lap("act")
                    env.send(actions)
                    clock.lap("emulate")  # mini games play here, an emulator between here and `recv`
            if self.schedule is not None and t < rollout.T:
                self.schedule.go_on(rollout.T - t)
                clock.lap("control")
        if self.config.spec.trains_policy:
            rollout.values[rollout.T] = self._evaluate(self.now * env.n_envs + self._envs)[1]

    def _whose_turn(self) -> tuple[Int[Tensor, "n"], Int[Tensor, "n"]]:
        """The environments of the group whose turn it is, and their samples of frame `now`."""
        envs = self.turn + self._envs[: self.groups[0].stop]
        return envs, self.now * self.env.n_envs + envs

    def _look(self) -> None:
        """What the environments of one group have sent becomes frame `now`, and their control there is judged."""
        envs, index = self._whose_turn()
        rollout = self.rollout
        rollout.place(index)
        if isinstance(self.tracker, ControlTracker):
            actions = rollout.actions.view(-1)[index - self.env.n_envs]  # those that led here
            first = rollout.first.flatten()[index]
            control = self.tracker.advance(rollout.stacks(index), actions, first, envs)
            rollout.judge(index, control.direct, control.g, control.reward)

    def _track(self, t: int, group: int, rows: slice) -> None:
        """The same judgement outside of any graph: of a run's first frames, and by an oracle."""
        if self.tracker is None:
            return
        rollout = self.rollout
        actions, first = rollout.actions[max(t - 1, 0), rows], rollout.first[t, rows]
        control = self.tracker.step(rollout.stack(t, rows), actions, first, group=group)
        rollout.judge(rollout.index(t, rows), control.direct, control.g, control.reward)

    def _decide(self) -> Int[Tensor, "n"]:
        """One group acts on frame `now` with its dice of `clocks`; the decision goes into the rollout."""
        envs, index = self._whose_turn()
        clocks = self.clocks[envs]
        logits, values = torch.zeros_like(clocks), torch.zeros_like(self.rollout.values[0, : len(clocks)])
        if self.config.spec.trains_policy:
            learnt, values = self._evaluate(index)
            logits = learnt * self.skilled  # random while warming up
        actions = sample(logits, clocks)
        self.rollout.act(index, actions, log_prob_of(logits, actions), values)
        self.rollout.log_policy.flatten(0, 1).index_copy_(0, index, logits.log_softmax(-1))
        return actions

    def observe(self, index: Int[Tensor, "B"]) -> tuple[UInt8[Tensor, "B C px_h px_w"], Tensor | None]:
        """What the policy sees of any samples of the rollout: the stack and, if it is shown, g as a picture."""
        extra = None
        if self.config.shows_g:
            extra = as_channel(self.rollout.g.flatten(0, 1)[index], self.models)
        return self.rollout.stacks(index), extra

    def _evaluate(self, index: Int[Tensor, "N"]) -> tuple[Float[Tensor, "N A"], Float[Tensor, "N S"]]:
        with torch.no_grad(), mixed_precision(self.device, self.config.ppo):
            return self.policy(*self.observe(index))

    @property
    def warming_up(self) -> bool:
        return self.iteration < self.config.warmup_iterations

    def reward(self, metrics: dict[str, Tensor]) -> Samples:
        """Rewards and advantages: everything PPO learns from."""
        config, rollout = self.config.ppo, self.rollout
        recorded = rollout.recorded()
        advantages, returns = [], []
        for s, (stream, reward) in enumerate(self.streams):
            rewards = reward.compute(recorded).masked_fill(~recorded.real, 0.0)  # nothing is earned by a reset
            metrics[f"reward/{stream.name}"] = rewards.mean()
            if stream.normalise:
                rewards = self.scales[s].scale(rewards, recorded.real)
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
            metrics[f"advantage/{stream.name}"] = advantage.abs().mean()
        return Samples(
            actions=rollout.actions.flatten(),
            log_probs=rollout.log_probs.flatten(),
            values=rollout.values[:-1].flatten(0, 1),
            advantages=torch.stack(advantages).sum(0).flatten(),
            returns=torch.stack(returns, dim=-1).flatten(0, 1),
            weight=recorded.real.flatten().float(),
        )

    def learn(self, samples: Samples) -> dict[str, Tensor]:
        """PPO; not during the warm-up."""
        if self.warming_up:
            return {}
        left = max(1.0 - self.iteration / self.config.iterations, 0.0)
        terms = self.ppo.update(samples, left, self.generator)
        return {f"loss/{name}": term for name, term in terms.items()}

    def update_rewards(self) -> dict[str, Tensor]:
        recorded = self.rollout.recorded()
        metrics: dict[str, Tensor] = {}
        for stream, reward in self.streams:
            metrics |= {f"{stream.name}/{name}": value for name, value in reward.update(recorded).items()}
        return metrics

    def update_control(self) -> dict[str, Tensor]:
        """Hand the rollout to the control models. With overlap the metrics are those of the rollout before."""
        rollout = self.rollout
        metrics: dict[str, Tensor] = {}
        if self.schedule is not None:
            told = (rollout.all_frames, rollout.actions, rollout.all_first, rollout.first_here, rollout.log_policy)
            metrics |= self.schedule.take(*told)
        recorded, flash = rollout.recorded(), self.config.control.latent.flash
        if flash < 1:
            frames = recorded.frames
            metrics["control/flashes"] = flash_share(frames[:-1], frames[1:], recorded.real, flash)
        return metrics | {"control/g": rollout.g.sum(-1).mean()}

    def settle(self) -> None:
        """Finish what is under way before the run is saved, and make sure that it is worth saving."""
        if self.schedule is not None:
            self.read(self.schedule.settle())

    def read(self, metrics: dict[str, Tensor]) -> dict[str, float]:
        return read_finite(metrics, dict(self.policy.named_parameters()))

    # Saving ------------------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """Everything by name; work that is still under way is finished first."""
        self.settle()
        parts: dict[str, dict[str, Tensor]] = {
            "policy": self.policy.state_dict(),
            "optimiser": checkpoint.optimiser_tensors(self.ppo.optimiser),
            "rollout": self.rollout.state_dict(),
            "env": self.env.state_dict() or {},
            "dice": {"state": self.generator.get_state()},
        }
        for i, (_, reward) in enumerate(self.streams):
            parts[f"reward.{i}"] = reward.state_dict()
            parts[f"scale.{i}"] = self.scales[i].state_dict()
        if self.tracker is not None:
            parts |= {"control": self.models.state_dict(), "tracker": self.tracker.state_dict()}
        if self.schedule is not None:
            parts["schedule"] = self.schedule.state_dict()
        return {name: t for prefix, part in parts.items() for name, t in checkpoint.prefixed(prefix, part).items()}

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
            self.scales[i].load_state_dict(part(tensors, f"scale.{i}"))
        if self.tracker is not None:
            self.models.load_state_dict(part(tensors, "control"))
        if self.schedule is not None:
            self.schedule.load_state_dict(part(tensors, "schedule"))
        set_rng_state(self.generator, tensors["dice.state"])
        self.iteration, self.frames = state["iteration"], state["frames"]
        env_state = part(tensors, "env")
        exact = bool(env_state)
        self.score_book.load_state(state["score_book"], same_games=exact)
        if exact:
            self.env.load_state_dict(env_state)
            self.rollout.load_state_dict(part(tensors, "rollout"))
            if self.tracker is not None:
                self.tracker.load_state_dict(part(tensors, "tracker"))
        else:
            # A new seed, or every restart would replay the same episodes.
            self._open(self.env.reset((self.config.seed + 1_000_003 * self.iteration) % 2**31))
        return exact
