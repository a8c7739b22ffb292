"""Empowerment (Mohamed and Rezende 2015): how much of the near future the agent decides, in nats.

E(s) = max over sources w of I(a_1..a_K; s' | s): how well K actions, chosen beforehand by w(a | s), can be read off the
state s' that they lead to. A decoder q(a | s, s') bounds it from below: I >= mean of ln q(a | s, s') - ln w(a | s). The
best source for a decoder is w(a | s) = exp(ln q(a | s, s')) / Z(s), averaged over s' in the exponent, and the bound is
then ln Z(s). There are too many sequences to sum over, so a model h(a | s) of that source and psi(s) = ln Z(s) are
fitted to ln q = ln h + psi wherever the agent has been. The numbers [E1] ... are the deviations in docs/methods.md.
"""

import math
from collections.abc import Mapping

import torch
from torch import nn
from torch.nn.functional import pad

from megareward.errors import UsageError
from megareward.nets import orthogonal
from megareward.rewards.interface import RewardTerm
from megareward.rewards.networks import Learner, code_size, encoder, in_parts, means_of, minibatches, most_rows
from megareward.rewards.settings import EmpConfig
from megareward.rng import set_rng_state
from megareward.rollout import Recorded
from megareward.state import part
from megareward.statistics.normaliser import Normaliser
from megareward.statistics.weighted import weighted_mean
from megareward.types import Bool, Float, Int, Tensor, UInt8
from megareward.world import World


class Sequences(nn.Module):
    """ln p(a_1, ..., a_K | context): one action after the other, each given those before it."""

    def __init__(self, n_actions: int, n_context: int, units: int) -> None:
        super().__init__()
        self.n_actions = n_actions
        self.start = orthogonal(nn.Linear(n_context, units), 1.0)
        self.before = nn.Embedding(n_actions + 1, units)  # one more for the first action, which has none before it
        self.memory = nn.GRU(units, units, batch_first=True)
        self.logits = orthogonal(nn.Linear(units, n_actions), 0.01)

    def forward(self, context: Float[Tensor, "B C"], actions: Int[Tensor, "B K"]) -> Float[Tensor, "B"]:
        before = pad(actions[:, :-1], (1, 0), value=self.n_actions)  # (B, K)
        hidden, _ = self.memory(self.before(before), self.start(context).tanh()[None])  # (B, K, units)
        log_probs = self.logits(hidden).log_softmax(-1)  # (B, K, A)
        return log_probs.gather(-1, actions[..., None]).sum((-1, -2))


class Empowerment:
    def __init__(self, config: EmpConfig, world: World, ends_count: bool) -> None:
        self.config, self.device, self.ends_count = config, world.device, ends_count
        self.most = config.steps * math.log(world.n_actions)
        """The maximum, in nats: every sequence leads to a different state."""
        F, A = code_size(world.frame_shape), world.n_actions
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(world.seed)
            self.code = encoder(world.frame_shape)
            self.decoder = Sequences(A, 2 * F, F)
            self.source = Sequences(A, F, F)
            self.psi = nn.Sequential(orthogonal(nn.Linear(F, F)), nn.ReLU(), orthogonal(nn.Linear(F, 1), 0.01))
        networks = nn.ModuleDict({"code": self.code, "decoder": self.decoder, "source": self.source, "psi": self.psi})
        self.learner = Learner(networks, config.learning_rate, world, self.losses)
        self.normaliser = Normaliser("pixel", world.frame_shape, config.normalise_frames, world.device)
        self.draws = torch.Generator(world.device).manual_seed(world.seed)

    def look(self, frames: UInt8[Tensor, "B px_h px_w"]) -> Float[Tensor, "B F"]:
        """Codes of single frames [E1]."""
        return self.code(self.normaliser(frames)[:, None])

    def empowerment(self, frames: UInt8[Tensor, "B px_h px_w"]) -> Float[Tensor, "B"]:
        """psi, within the bounds that every mutual information of K actions has."""
        return self.psi(self.look(frames))[:, 0].clamp(0, self.most)

    def compute(self, recorded: Recorded) -> Float[Tensor, "T N"]:
        """The empowerment of the frame that each transition leads to; 0 at an end."""
        worth = in_parts(self.empowerment, recorded.frames[1:].flatten(0, 1)).view(recorded.actions.shape)
        return worth.masked_fill(recorded.terminated[1:] & self.ends_count, 0)

    def errors(
        self, now: Float[Tensor, "B F"], then: Float[Tensor, "B F"], actions: Int[Tensor, "B K"]
    ) -> dict[str, Float[Tensor, "B"]]:
        """What is minimised: -ln q of the actions taken, and the squared error of ln q = ln h + psi with q detached."""
        log_q = self.decoder(torch.cat([now, then], -1), actions)
        fit = self.source(now, actions) + self.psi(now)[:, 0]
        return {"decoder_loss": -log_q, "source_loss": (log_q.detach() - fit).square()}

    def losses(
        self,
        weight: Float[Tensor, "B"],
        now: UInt8[Tensor, "B px_h px_w"],
        then: UInt8[Tensor, "B px_h px_w"],
        actions: Int[Tensor, "B K"],
    ) -> dict[str, Float[Tensor, ""]]:
        errors = self.errors(self.look(now), self.look(then), actions)
        losses = {name: weighted_mean(error, weight) for name, error in errors.items()}
        return losses | {"total": torch.stack(list(losses.values())).sum()}

    def update(self, recorded: Recorded) -> dict[str, Tensor]:
        config, frames, K = self.config, recorded.frames, self.config.steps
        if self.normaliser.n_seen < config.normalise_frames:
            self.normaliser.observe(frames[1:][recorded.real])
        t, n = starts(recorded.real, K)  # (M,) each
        rows = most_rows(recorded.actions.numel(), config.update_fraction, config.minibatches)
        steps = []
        for pick in minibatches(len(t), config.update_fraction, config.minibatches, config.epochs, self.draws):
            at, env = t[pick], n[pick]
            actions = recorded.actions[at[:, None] + torch.arange(K, device=self.device), env[:, None]]  # (B, K)
            steps.append(self.learner.step((frames[at, env], frames[at + K, env], actions), rows))
        return means_of(steps)

    def state_dict(self) -> dict[str, Tensor]:
        scaling = {f"normaliser.{name}": tensor.clone() for name, tensor in self.normaliser.state_dict().items()}
        return self.learner.state_dict() | scaling | {"draws": self.draws.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.learner.load_state_dict(state)
        self.normaliser.load_state_dict(part(state, "normaliser"))
        set_rng_state(self.draws, state["draws"])


def starts(real: Bool[Tensor, "T N"], K: int) -> tuple[Int[Tensor, "M"], Int[Tensor, "M"]]:
    """(t, n) from which K transitions in a row lie inside one episode and inside the rollout [E3]."""
    if len(real) < K:
        raise UsageError(
            f"--reward.steps is {K}, but a rollout has {len(real)} steps, so it holds no sequence to learn from; use "
            "longer rollouts (--rollout-steps) or fewer steps."
        )
    t, n = real.unfold(0, K, 1).all(-1).nonzero().unbind(1)
    return t, n


def build(config: EmpConfig, world: World) -> list[RewardTerm]:
    stream = config.stream("emp", world.episodic)
    return [RewardTerm(stream, Empowerment(config, world, stream.episodic))]
