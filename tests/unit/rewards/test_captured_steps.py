"""Gradient steps at a fixed place, as a graph needs them: the same numbers as on the batch itself, whatever its size.

Nothing is captured on a CPU; `tests/gpu` does the same on a GPU.
"""

from dataclasses import replace

import pytest
import torch
from torch import nn

from megareward.rewards import METHODS
from megareward.rewards.networks import CapturedStep, Learner, most_rows
from megareward.statistics.weighted import weighted_mean
from tests.unit.rewards.recordings import assert_resumes, copied, noise, with_skills, world

SETTINGS = {
    "rnd": {"minibatches": 2, "epochs": 2, "update_fraction": 1.0},
    "g-rnd": {"minibatches": 2, "epochs": 2, "update_fraction": 1.0},
    "curiosity": {"minibatches": 2, "normalise_frames": 9},
    "curiosity, inverse": {"minibatches": 2, "normalise_frames": 9, "features": "inverse"},
    "emp": {"minibatches": 2, "epochs": 2, "steps": 2, "normalise_frames": 9},
    "sto": {"minibatches": 2, "epochs": 2, "n_skills": 4},
    "div": {"batch": 5, "epochs": 2, "n_skills": 4, "holds": (2,)},
}


def rollout(*words):
    return with_skills(noise(*words), 4)


def make(name, world):
    method = METHODS[name.split(",")[0]]
    [(_, reward)] = method.build(method.config(**SETTINGS[name]), world)
    return reward


def test_rows_that_are_missing_weigh_nothing():
    torch.manual_seed(0)
    plain, fixed = nn.Linear(3, 2), nn.Linear(3, 2)
    fixed.load_state_dict(plain.state_dict())

    def learner(network, graphs):
        def losses(weight, x, y):
            loss = weighted_mean((network(x) - y).square().mean(-1), weight)
            return {"total": 2 * loss, "loss": loss}

        return Learner(network, 1e-2, replace(world(), cuda_graphs=graphs), losses, max_grad_norm=0.5)

    one, other = learner(plain, False), learner(fixed, True)
    for size in (7, 4, 7, 1):  # what the batch before left behind does not count
        batch = torch.randn(size, 3), torch.randn(size, 2)
        mine, theirs = one.step(batch, 7), other.step(batch, 7)
        assert list(mine) == list(theirs) == ["loss"]
        torch.testing.assert_close(mine, theirs)
        torch.testing.assert_close(plain.weight, fixed.weight)


def test_the_largest_minibatch_is_as_large_as_said():
    for n in (1, 5, 12, 13):
        for fraction in (0.3, 1.0):
            for number in (1, 3, 4):
                order = torch.arange(n)[: -(-round(fraction * n * 100) // 100)]
                assert max(len(part) for part in order.chunk(number)) <= most_rows(n, fraction, number)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_reward_learns_the_same_at_a_fixed_place(name, monkeypatch):
    sizes = set()
    call = CapturedStep.__call__
    monkeypatch.setattr(
        CapturedStep, "__call__", lambda self, batch: sizes.add((len(batch[0]), len(self.weight))) or call(self, batch)
    )
    plain, fixed = make(name, world()), make(name, replace(world(), cuda_graphs=True))
    for seed in (1, 2):
        recorded = rollout((32, 36), seed)
        torch.testing.assert_close(fixed.compute(recorded), plain.compute(recorded), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(fixed.update(recorded), plain.update(recorded), rtol=1e-3, atol=1e-5)
    for key, tensor in plain.state_dict().items():
        torch.testing.assert_close(fixed.state_dict()[key], tensor, rtol=1e-3, atol=1e-4)
    assert len({rows for _, rows in sizes}) == 1, "more than one size is captured"
    assert any(size < rows for size, rows in sizes), "no batch was smaller than its place"


@pytest.mark.parametrize("name", ["rnd", "div"])
def test_it_resumes_exactly(name):
    assert_resumes(lambda world: make(name, replace(world, cuda_graphs=True)), noise=rollout)


def test_what_was_captured_is_forgotten_with_the_moments_it_knew():
    reward = make("rnd", replace(world(), cuda_graphs=True))
    reward.update(rollout())
    assert reward.learner._captured
    reward.load_state_dict(copied(reward.state_dict()))
    assert not reward.learner._captured
