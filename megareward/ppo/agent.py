"""The agent: a policy, one value head per reward stream, and PPO. It never learns whether a reward is intrinsic."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch

from megareward.errors import UsageError
from megareward.ppo.config import PolicyConfig, PPOConfig
from megareward.ppo.gae import gae
from megareward.ppo.loss import log_prob_of
from megareward.ppo.policy import Policy, PolicyInputs, sample
from megareward.ppo.update import PPO, AuxiliaryLoss, Samples, mixed_precision
from megareward.reward_stream import RewardStream
from megareward.rollout import Decision, Recorded, Rollout
from megareward.state import State, joined, load_optimiser_state, optimiser_state, part
from megareward.statistics.normaliser import Normaliser
from megareward.types import Float, Int, Tensor
from megareward.world import World

CARRIED_OVER = ("trunk", "action_head", "normaliser")
"""Parts of a policy that another run can start from; value heads belong to rewards, which may differ."""


class Agent(Protocol):
    """An agent, as the collector and the loop use it."""

    def decide(
        self, index: Int[Tensor, "n"], exponentials: Float[Tensor, "n A"], policy_on: Float[Tensor, ""]
    ) -> Decision:
        """Act on the samples `index` of the rollout. `policy_on` is 1, or 0 for uniformly random actions;
        `exponentials` are the random numbers. A CUDA graph can do this."""
        ...

    def values(self, index: Int[Tensor, "n"]) -> Float[Tensor, "n S"]: ...

    def samples(self, rewards: Sequence[Float[Tensor, "T N"]]) -> tuple[Samples | None, dict[str, Tensor]]:
        """Advantages and returns of the rollout, given the reward of each stream; with metrics."""
        ...

    def learn(self, samples: Samples | None, left: float) -> dict[str, Tensor]:
        """`left` is the share of training still to come."""
        ...

    def warm_up(self, samples: Samples | None, left: float) -> dict[str, Tensor]:
        """In place of `learn` while actions are random: only the auxiliary loss, if there is one."""
        ...

    def observe(self, recorded: Recorded) -> None:
        """Update the statistics of the frames with a rollout that has been learnt from."""
        ...

    def weights(self) -> dict[str, torch.nn.Parameter]:
        """The parameters, by name: all must stay finite."""
        ...

    def state_dict(self) -> State: ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None: ...

    def load_policy(self, state: Mapping[str, Tensor], parts: Sequence[str] | None = None) -> None: ...


class RandomAgent:
    """Uniformly random actions; it learns nothing."""

    def __init__(self, world: World, n_streams: int = 1) -> None:
        self.world, self.n_streams = world, n_streams

    def decide(
        self, index: Int[Tensor, "n"], exponentials: Float[Tensor, "n A"], policy_on: Float[Tensor, ""]
    ) -> Decision:
        logits = torch.zeros_like(exponentials)
        actions = sample(logits, exponentials)
        return Decision(actions, log_prob_of(logits, actions), self.values(index), logits.log_softmax(-1))

    def values(self, index: Int[Tensor, "n"]) -> Float[Tensor, "n S"]:
        return torch.zeros(len(index), self.n_streams, device=self.world.device)

    def samples(self, rewards: Sequence[Tensor]) -> tuple[None, dict[str, Tensor]]:
        return None, {}

    def learn(self, samples: Samples | None, left: float) -> dict[str, Tensor]:
        return {}

    def warm_up(self, samples: Samples | None, left: float) -> dict[str, Tensor]:
        return {}

    def observe(self, recorded: Recorded) -> None:
        pass

    def weights(self) -> dict[str, torch.nn.Parameter]:
        return {}

    def state_dict(self) -> State:
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        pass

    def load_policy(self, state: Mapping[str, Tensor], parts: Sequence[str] | None = None) -> None:
        pass


class PPOAgent:
    """Reads the rollout that the collector writes."""

    def __init__(
        self,
        world: World,
        rollout: Rollout,
        streams: Sequence[RewardStream],
        config: PPOConfig,
        policy: PolicyConfig,
        inputs: PolicyInputs,
        generator: torch.Generator,
        auxiliary: Any = None,
    ) -> None:
        """`auxiliary(policy, rollout) -> AuxiliaryLoss`, if there is one. `generator` orders the minibatches."""
        self.world, self.rollout, self.streams, self.config = world, rollout, streams, config
        self.inputs, self.generator = inputs, generator
        self.normaliser: Normaliser | None = None
        if policy.normalise == "pixel":
            self.normaliser = Normaliser("pixel", world.frame_shape, policy.normalise_frames, world.device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(world.seed)
            n_streams, sizes = max(len(streams), 1), inputs.sizes(rollout.declared)
            network = Policy(world.frame_shape, world.n_actions, n_streams, policy, sizes, self.normaliser)
            self.policy = network.to(world.device)
            self.auxiliary: AuxiliaryLoss | None = auxiliary(self.policy, rollout) if auxiliary else None
        self.policy.put_features_last()
        batch = rollout.T * rollout.n_envs
        self.ppo = PPO(self.policy, lambda index: inputs.observe(rollout, index), config, batch, self.auxiliary)

    # Acting --------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def evaluate(self, index: Int[Tensor, "n"]) -> tuple[Float[Tensor, "n A"], Float[Tensor, "n S"]]:
        """Logits and values."""
        with mixed_precision(self.world.device, self.config):
            return self.policy(*self.inputs.observe(self.rollout, index))

    def decide(
        self, index: Int[Tensor, "n"], exponentials: Float[Tensor, "n A"], policy_on: Float[Tensor, ""]
    ) -> Decision:
        """Draw actions from the policy and keep what PPO will ask for."""
        logits, values = self.evaluate(index)
        logits = logits * policy_on
        actions = sample(logits, exponentials)
        return Decision(actions, log_prob_of(logits, actions), values, logits.log_softmax(-1))

    def values(self, index: Int[Tensor, "n"]) -> Float[Tensor, "n S"]:
        return self.evaluate(index)[1]

    # Learning ------------------------------------------------------------------------------------------------------

    def samples(self, rewards: Sequence[Float[Tensor, "T N"]]) -> tuple[Samples, dict[str, Tensor]]:
        """Advantages and returns by stream; the advantages are added up by the streams' weights."""
        rollout = self.rollout
        advantages, returns, metrics = [], [], {}
        for s, (stream, own) in enumerate(zip(self.streams, rewards, strict=True)):
            values = rollout.values[..., s]
            advantage = gae(
                own,
                values,
                rollout.first,
                rollout.terminated,
                rollout.truncated,
                stream.discount,
                self.config.gae_lambda,
                stream.episodic,
                rollout.fields[stream.cut_at] if stream.cut_at else None,
            )
            advantages.append(stream.weight * advantage)
            returns.append(advantage + values[:-1])
            metrics[f"advantage/{stream.name}"] = advantage.abs().mean()
        samples = Samples(
            actions=rollout.actions.flatten(),
            log_probs=rollout.log_probs.flatten(),
            values=rollout.values[:-1].flatten(0, 1),
            advantages=torch.stack(advantages).sum(0).flatten(),
            returns=torch.stack(returns, dim=-1).flatten(0, 1),
            weight=rollout.real.flatten().float(),
        )
        return samples, metrics

    def learn(self, samples: Samples | None, left: float) -> dict[str, Tensor]:
        """PPO's update."""
        assert samples is not None
        terms = self.ppo.update(samples, left, self.generator)
        return {f"loss/{name}": term for name, term in terms.items()}

    def warm_up(self, samples: Samples | None, left: float) -> dict[str, Tensor]:
        if self.auxiliary is None:
            return {}
        assert samples is not None
        terms = self.ppo.update(samples, left, self.generator, only_auxiliary=True)
        return {"loss/auxiliary": terms["auxiliary"]}

    def observe(self, recorded: Recorded) -> None:
        """Until the statistics are complete, every rollout is scaled a little differently."""
        if self.normaliser is not None:
            self.normaliser.observe(recorded.frames[1:].flatten(0, 1))

    # Saving --------------------------------------------------------------------------------------------------------

    def weights(self) -> dict[str, torch.nn.Parameter]:
        own = dict(self.auxiliary.module.named_parameters(prefix="auxiliary")) if self.auxiliary else {}
        return dict(self.policy.named_parameters()) | own

    def state_dict(self) -> State:
        parts = {"policy": self.policy_state(), "optimiser": optimiser_state(self.ppo.optimiser)}
        if self.auxiliary is not None:
            parts["auxiliary"] = self.auxiliary.module.state_dict()
        return joined(**parts)

    def policy_state(self) -> State:
        """All that is needed to act: weights, and the statistics of the frames."""
        scaling = {} if self.normaliser is None else joined(normaliser=self.normaliser.state_dict())
        return self.policy.state_dict() | scaling

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.load_policy(part(state, "policy"))
        if self.auxiliary is not None:
            self.auxiliary.module.load_state_dict(part(state, "auxiliary"))
        load_optimiser_state(self.ppo.optimiser, part(state, "optimiser"))
        self.ppo.forget_graph()

    def load_policy(self, state: Mapping[str, Tensor], parts: Sequence[str] | None = None) -> None:
        """Load what `policy_state` returns: all, or only these parts, the others staying as they are."""
        wanted, mine = (
            {n: w for n, w in weights.items() if parts is None or n.split(".")[0] in parts}
            for weights in (state, self.policy_state())
        )
        for name, weight in wanted.items():
            if name not in mine or mine[name].shape != weight.shape:
                own = tuple(mine[name].shape) if name in mine else "missing"
                raise UsageError(
                    f"The weights do not fit this policy: {name} is {tuple(weight.shape)} there and {own} here. The "
                    "game's actions, the frames' size and what the policy sees must be the same."
                )
        if wanted.keys() != mine.keys():
            raise UsageError(f"The weights do not fit this policy: {len(wanted)} tensors there, {len(mine)} here.")
        weights = {name: weight for name, weight in wanted.items() if not name.startswith("normaliser.")}
        self.policy.load_state_dict(weights, strict=parts is None)
        if self.normaliser is not None and (statistics := part(wanted, "normaliser")):
            self.normaliser.load_state_dict(statistics)


class FrozenAgent(PPOAgent):
    """Acts by the policy that was loaded and learns nothing."""

    def learn(self, samples: Samples | None, left: float) -> dict[str, Tensor]:
        return {}

    def observe(self, recorded: Recorded) -> None:
        pass
