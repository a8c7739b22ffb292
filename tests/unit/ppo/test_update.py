"""The update as a whole: what it changes, what it must not, a further loss, and that its fast path is the same."""

import pytest
import torch

from megareward.ppo.config import PolicyConfig, PPOConfig
from megareward.ppo.policy import Observation, Policy
from megareward.ppo.update import PPO, AuxiliaryLoss, Samples, losses

A, S, B = 5, 2, 24
CONFIG = PPOConfig(minibatches=4, epochs=2, learning_rate=1e-3)


def policy_and_samples(device: str = "cpu", dead: int | None = None) -> tuple[Policy, torch.Tensor, Samples]:
    torch.manual_seed(3)
    policy = Policy((32, 32), A, S, PolicyConfig()).to(device)
    frames = torch.randint(0, 256, (B, 4, 32, 32), dtype=torch.uint8, device=device)
    weight = torch.ones(B, device=device)
    if dead is not None:
        weight[dead] = 0.0
    samples = Samples(
        actions=torch.randint(A, (B,), device=device),
        log_probs=torch.full((B,), -1.6, device=device),
        values=torch.randn(B, S, device=device),
        advantages=torch.randn(B, device=device),
        returns=torch.randn(B, S, device=device),
        weight=weight,
    )
    return policy, frames, samples


def make_ppo(policy: Policy, frames: torch.Tensor, config: PPOConfig, auxiliary: AuxiliaryLoss | None = None) -> PPO:
    return PPO(policy, lambda index: Observation(frames[index]), config, B, auxiliary)


def train(
    policy: Policy,
    frames: torch.Tensor,
    samples: Samples,
    config: PPOConfig,
    updates: int = 2,
    auxiliary: AuxiliaryLoss | None = None,
) -> dict:
    ppo = make_ppo(policy, frames, config, auxiliary)
    generator = torch.Generator(frames.device).manual_seed(0)
    for i in range(updates):
        metrics = ppo.update(samples, 1.0 - 0.25 * i, generator)
    return metrics


def test_an_update_raises_the_probability_of_actions_with_positive_advantage():
    policy, frames, samples = policy_and_samples()
    logits, _ = policy(frames)
    before = torch.log_softmax(logits, -1).gather(1, samples.actions[:, None])[:, 0].detach()
    samples = Samples(**{**vars(samples), "log_probs": before})
    train(policy, frames, samples, CONFIG)
    after = torch.log_softmax(policy(frames)[0], -1).gather(1, samples.actions[:, None])[:, 0]
    gain = (after - before).detach()
    assert gain[samples.advantages > 0.5].mean() > gain[samples.advantages < -0.5].mean()


def test_a_transition_across_a_reset_does_not_touch_the_weights():
    """Everything about the dead sample is changed wildly; the trained weights must not notice."""
    one, frames, samples = policy_and_samples(dead=7)
    two, _, _ = policy_and_samples(dead=7)
    poisoned = Samples(**{name: tensor.clone() for name, tensor in vars(samples).items()})
    poisoned.actions[7] = (samples.actions[7] + 1) % A
    poisoned.advantages[7] = poisoned.returns[7] = poisoned.values[7] = 1e4
    train(one, frames, samples, CONFIG)
    train(two, frames, poisoned, CONFIG)
    for p, q in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(p, q)


def test_with_no_time_left_nothing_is_learnt():
    policy, frames, samples = policy_and_samples()
    before = [p.clone() for p in policy.parameters()]
    ppo = make_ppo(policy, frames, CONFIG)
    ppo.update(samples, 0.0, torch.Generator().manual_seed(0))
    assert all(torch.equal(p, q) for p, q in zip(policy.parameters(), before, strict=True))


@pytest.mark.parametrize("mode", ["minibatch", "rollout", "never"])
def test_every_way_to_normalise_advantages_gives_finite_losses(mode):
    policy, frames, samples = policy_and_samples()
    metrics = train(policy, frames, samples, PPOConfig(**{**vars(CONFIG), "normalise_advantages": mode}))
    assert all(torch.isfinite(value) for value in metrics.values())
    assert set(metrics) == set(PPO.TERMS)


# A further loss ------------------------------------------------------------------------------------------------------


class Brightness(AuxiliaryLoss):
    """How bright is the frame? A head of its own answers from the trunk's output; the answers are samples by number."""

    def __init__(self, device: str = "cpu", weight: float = 1.0) -> None:
        torch.manual_seed(4)
        self.module = torch.nn.Linear(128, 1).to(device)
        self.weight = weight
        self.answers = torch.linspace(-1, 1, B, device=device)
        self.seen: list[torch.Tensor] = []

    def __call__(self, policy: Policy, seen: Observation, index: torch.Tensor) -> torch.Tensor:
        if not index.is_cuda:  # where a graph is replayed, nothing here is called
            self.seen.append(index.clone())
        features = policy.trunk(seen.stack.float() / 255)
        return self.weight * (self.module(features)[:, 0] - self.answers[index]).square().mean()


def nothing_to_learn(samples: Samples) -> tuple[Samples, PPOConfig]:
    """A rollout and settings by which PPO's own loss has no gradient at all."""
    config = PPOConfig(**{**vars(CONFIG), "value_weight": 0.0, "entropy_weight": 0.0})
    return Samples(**{**vars(samples), "advantages": torch.zeros(B)}), config


def copies(module: torch.nn.Module) -> list[torch.Tensor]:
    return [p.detach().clone() for p in module.parameters()]


def same(module: torch.nn.Module, before: list[torch.Tensor]) -> list[bool]:
    return [torch.equal(p, q) for p, q in zip(module.parameters(), before, strict=True)]


def test_an_auxiliary_loss_trains_the_trunk_and_its_own_module_and_nothing_else():
    policy, frames, samples = policy_and_samples()
    samples, config = nothing_to_learn(samples)
    auxiliary, heads = Brightness(), torch.nn.ModuleList([policy.action_head, policy.value_head])
    trunk, own, of_heads = copies(policy.trunk), copies(auxiliary.module), copies(heads)
    train(policy, frames, samples, config)
    assert all(same(policy.trunk, trunk))  # so whatever is learnt below comes from the further loss
    first = train(policy, frames, samples, config, updates=1, auxiliary=auxiliary)
    assert not any(same(policy.trunk, trunk))
    assert not any(same(auxiliary.module, own))
    assert all(same(heads, of_heads))
    ppo, generator = make_ppo(policy, frames, config, auxiliary), torch.Generator().manual_seed(0)
    for _ in range(20):
        later = ppo.update(samples, 1.0, generator)
    assert later["auxiliary"] < 0.5 * first["auxiliary"]


def test_an_auxiliary_loss_alone_moves_the_trunk_and_leaves_the_heads_and_is_told_how_much_training_is_left():
    policy, frames, samples = policy_and_samples()
    auxiliary, told = Brightness(), []
    heads = torch.nn.ModuleList([policy.action_head, policy.value_head])
    auxiliary.begin = told.append
    trunk, of_heads = copies(policy.trunk), copies(heads)
    ppo = make_ppo(policy, frames, CONFIG, auxiliary)
    ppo.update(samples, 0.75, torch.Generator().manual_seed(0), only_auxiliary=True)
    assert told == [0.75]
    assert not any(same(policy.trunk, trunk))
    assert all(same(heads, of_heads))
    ppo.update(samples, 0.5, torch.Generator().manual_seed(0))
    assert not any(same(heads, of_heads))


def test_an_auxiliary_loss_is_part_of_the_same_gradient_steps_and_of_the_total():
    policy, frames, samples = policy_and_samples()
    auxiliary = Brightness()
    ppo = make_ppo(policy, frames, CONFIG, auxiliary)
    means = ppo.update(samples, 1.0, torch.Generator().manual_seed(0))
    steps = [int(state["step"]) for state in ppo.optimiser.state.values()]
    assert steps == [CONFIG.epochs * CONFIG.minibatches] * len([*policy.parameters(), *auxiliary.module.parameters()])
    epochs = torch.stack(auxiliary.seen).view(CONFIG.epochs, B)  # it sees PPO's own minibatches
    assert all(torch.equal(epoch.sort().values, torch.arange(B)) for epoch in epochs)
    assert set(means) == {*PPO.TERMS, "auxiliary"}
    own = means["policy"] + CONFIG.value_weight * means["value"] - CONFIG.entropy_weight * means["entropy"]
    torch.testing.assert_close(means["total"], own + means["auxiliary"])


def test_without_an_auxiliary_loss_or_with_one_of_weight_0_the_policy_learns_the_same():
    config = PPOConfig(**{**vars(CONFIG), "max_grad_norm": 1e6})  # clipping sums over more gradients: the last bits
    results = []
    for auxiliary in (None, Brightness(weight=0.0)):
        policy, frames, samples = policy_and_samples()
        means = train(policy, frames, samples, config, auxiliary=auxiliary)
        assert ("auxiliary" in means) == (auxiliary is not None)
        results.append([*policy.parameters(), *(means[name] for name in PPO.TERMS if name != "grad_norm")])
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)


def gradients(monkeypatch, precision: str, has_instructions: bool) -> torch.Tensor:
    monkeypatch.setattr("megareward.ppo.update.multiplies_bfloat16", lambda device: has_instructions)
    policy, frames, samples = policy_and_samples()
    config = PPOConfig(**{**vars(CONFIG), "precision": precision})
    index, clip = torch.arange(B), torch.tensor(0.2)
    losses(policy, lambda i: Observation(frames[i]), samples, index, clip, config)["total"].backward()
    return torch.cat([parameter.grad.flatten() for parameter in policy.parameters()])


def test_in_bfloat16_the_gradient_on_a_cpu_is_the_same_up_to_rounding(monkeypatch):
    exact = gradients(monkeypatch, "float32", has_instructions=True)
    rounded = gradients(monkeypatch, "bfloat16", has_instructions=True)
    assert rounded.dtype == torch.float32
    assert not torch.equal(rounded, exact)
    assert torch.cosine_similarity(rounded, exact, 0) > 0.999


def test_a_cpu_without_instructions_for_bfloat16_uses_float32(monkeypatch):
    exact = gradients(monkeypatch, "float32", has_instructions=False)
    assert torch.equal(gradients(monkeypatch, "bfloat16", has_instructions=False), exact)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("further", [False, True])
def test_an_update_as_a_cuda_graph_equals_the_plain_one_bit_for_bit(precision, further):
    results = []
    for graphs in (False, True):
        policy, frames, samples = policy_and_samples("cuda")
        config = PPOConfig(**{**vars(CONFIG), "cuda_graphs": graphs, "precision": precision})
        torch.backends.cudnn.deterministic = True
        auxiliary = Brightness("cuda") if further else None
        metrics = train(policy, frames, samples, config, updates=3, auxiliary=auxiliary)
        results.append([*policy.parameters(), *metrics.values()])
    for plain, captured in zip(*results, strict=True):
        assert torch.equal(plain, captured)
