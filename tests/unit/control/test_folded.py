"""Folded attention gives the maps that the layers give, also after the weights have moved."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from megareward.control.config import AdmConfig, ControlConfig, ExecutionConfig, RtmConfig
from megareward.control.learning.learner import ControlLearner
from megareward.control.models import ControlModels
from megareward.observers.tracker import ControlTracker

N, A, PX_H, PX_W, K, T = 5, 3, 16, 24, 2, 4
PAPER = ControlConfig(
    H=2,
    W=3,
    adm=AdmConfig(channels=2, features=6, hidden=5),  # 6, 5 and 12 are no multiples of 8: rows are padded
    rtm=RtmConfig(attention="sparsemax", channels=2, features=20, gamma_features=12, stack=K, gamma_sees_target=False),
    batch=4,
    learning_rate=0.03,
)
DEFAULT = replace(PAPER, rtm=replace(PAPER.rtm, gamma_sees_target=True), adm=replace(PAPER.adm, place=True))
INFORMATION = replace(PAPER, adm=replace(PAPER.adm, direct="information"))


def pair_of_models(config: ControlConfig) -> tuple[ControlModels, ControlModels]:
    plain, folded = (replace(config, execution=ExecutionConfig(folded=switch)) for switch in ("off", "on"))
    return ControlModels(plain, (PX_H, PX_W), A), ControlModels(folded, (PX_H, PX_W), A)


def bytes_like(*shape: int, seed: int) -> Tensor:
    return torch.randint(256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def learn(models: ControlModels, seed: int) -> None:
    actions = torch.randint(A, (T, N), generator=torch.Generator().manual_seed(seed))
    first = torch.zeros(T + 1, N, dtype=torch.bool)
    ControlLearner(models).update(bytes_like(T + 1, N, PX_H, PX_W, seed=seed), actions, first)


@pytest.mark.parametrize("config", [PAPER, DEFAULT, INFORMATION])
def test_folded_maps_equal_those_of_the_layers_before_and_after_learning(config):
    plain, folded = pair_of_models(config)
    stack, now = bytes_like(N, K, PX_H, PX_W, seed=1), bytes_like(N, PX_H, PX_W, seed=2)
    actions = torch.arange(N) % A
    anchor = plain.anchor(N, torch.Generator().manual_seed(3))
    relations = []
    for seed in range(3):
        expected, got = (models.attend(stack, actions, now, anchor) for models in (plain, folded))
        torch.testing.assert_close(got.direct, expected.direct, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(got.relation, expected.relation, atol=1e-5, rtol=1e-4)
        relations.append(got.relation)
        learn(plain, seed)
        learn(folded, seed)
    assert not torch.allclose(relations[0], relations[1], atol=1e-3)


def test_a_lagged_copy_and_loaded_models_are_folded_anew():
    _, learnt = pair_of_models(DEFAULT)
    _, lagged = pair_of_models(DEFAULT)
    _, loaded = pair_of_models(DEFAULT)
    stack, now = bytes_like(N, K, PX_H, PX_W, seed=1), bytes_like(N, PX_H, PX_W, seed=2)
    actions = torch.arange(N) % A
    for models in (learnt, lagged, loaded):
        models.attend(stack, actions, now, None)
    learn(learnt, 0)
    with torch.no_grad():
        lagged.copy_from(learnt)
    loaded.load_state_dict(learnt.state_dict())
    expected = learnt.attend(stack, actions, now, None)
    for models in (lagged, loaded):
        assert all(map(torch.equal, models.attend(stack, actions, now, None), expected))


def test_bfloat16_stays_near_the_exact_maps():
    exact, _ = pair_of_models(DEFAULT)
    how = ExecutionConfig(bf16="on", folded="on")
    rounded = ControlModels(replace(DEFAULT, execution=how), (PX_H, PX_W), A)
    rounded.load_state_dict(exact.state_dict())
    trackers = [ControlTracker(models, N) for models in (exact, rounded)]
    first = torch.zeros(N, dtype=torch.bool)
    for t in range(4):
        stack, actions = bytes_like(N, K, PX_H, PX_W, seed=t), (torch.arange(N) + t) % A
        expected, got = (tracker.step(stack, actions, first) for tracker in trackers)
    assert (got.direct - expected.direct).abs().max() < 0.02
    assert (got.g - expected.g).abs().max() < 0.05
