"""ADM explains what an action did, not why it was taken."""

import torch

from megareward.control.adm import ADM, AdmOutput
from megareward.control.config import AdmConfig
from megareward.control.grid import Grid

N, HW, A = 7, 6, 4


def losses(logits: torch.Tensor, actions: torch.Tensor, log_policy: torch.Tensor | None) -> dict[str, torch.Tensor]:
    adm = ADM(Grid(2, 3, 16, 24), AdmConfig(cell_loss=1.0), A)
    cells = logits[:, None].expand(N, HW, A)
    return adm.losses(AdmOutput(cells, torch.full((N, HW), 1 / HW), logits), actions, log_policy)


def test_the_loss_is_bayes_rule_written_out():
    generator = torch.Generator().manual_seed(0)
    effect, habit = torch.randn(N, A, generator=generator), torch.randn(N, A, generator=generator)
    actions = torch.randint(A, (N,), generator=generator)
    policy, likelihood = habit.softmax(-1), effect.exp()
    posterior = policy * likelihood / (policy * likelihood).sum(-1, keepdim=True)
    expected = -posterior[torch.arange(N), actions].log().mean()
    found = losses(effect, actions, policy.log())
    torch.testing.assert_close(found["action"], expected)
    torch.testing.assert_close(found["cell"], HW * expected)  # every cell on its own says the same here


def test_who_knows_the_policy_gains_nothing_by_guessing_it():
    """Actions drawn from a policy, frames that show nothing. The expected loss is flat at constant logits with the
    prior, and at the policy's own logits without it."""
    habit = torch.tensor([[2.0, -1.0, 0.5, 0.0]]).expand(N, A)  # the same everywhere, so that a mean is a sample

    def slope(at: torch.Tensor, log_policy: torch.Tensor | None) -> float:
        logits = at.clone().requires_grad_()
        every_action = (losses(logits, torch.full((N,), a), log_policy)["action"] for a in range(A))
        expected = sum(p * loss for p, loss in zip(habit[0].softmax(-1), every_action, strict=True))
        return torch.autograd.grad(expected, logits)[0].norm().item()

    constant = torch.ones(N, A)
    assert slope(constant, habit.log_softmax(-1)) < 1e-6 < slope(habit, habit.log_softmax(-1))
    assert slope(habit, None) < 1e-6 < slope(constant, None)


def test_without_a_prior_nothing_changes():
    logits, actions = torch.randn(N, A), torch.arange(N) % A
    for with_prior, without in zip(
        losses(logits, actions, torch.zeros(N, 1)).values(), losses(logits, actions, None).values(), strict=True
    ):
        assert torch.equal(with_prior, without)
