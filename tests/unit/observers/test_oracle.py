"""The oracle's maps against the truth by definition, the equations, and a whole run."""

import dataclasses
from itertools import pairwise

import pytest
import torch

from megareward.control.config import ControlConfig, LatentConfig, OracleConfig
from megareward.counterfactual.mini import Branches
from megareward.envs.mini import MINI_GAMES, mini_config
from megareward.envs.mini.demon import MiniDemon
from megareward.envs.mini.games import make_mini
from megareward.errors import UsageError
from megareward.observers.oracle import OracleTracker
from megareward.training.config import TrainConfig
from megareward.training.presets import debug
from megareward.training.loop import Trainer
from tests.small_envs import IdentityEnv

N, T, LAGS = 3, 60, 6
LITERAL = LatentConfig(hold=False, clip=False, reward="difference")


def watched(latent, normalise, game="mini-breakout", seed=4):
    """T steps under an oracle, and the plain influence beside it."""
    config = ControlConfig(H=4, W=8, latent=latent, oracle=OracleConfig(LAGS, normalise))
    env = make_mini(game, N, mini_config(game, max_steps=25))
    step = env.reset(seed)
    tracker = OracleTracker(env, config)
    branches = Branches(env, tracker.models.grid, LAGS)
    generator = torch.Generator().manual_seed(seed)
    nothing = torch.zeros(N, dtype=torch.int64)
    moments = [(tracker.step(step.frames[:, None], nothing, step.first), None, step.first)]
    for _ in range(T):
        actions = torch.randint(env.n_actions, (N,), generator=generator)
        step = env.step(actions)
        influence = branches.step(actions, step.first, step.frames) > 0
        moments.append((tracker.step(step.frames[:, None], actions, step.first), influence, step.first))
    return moments


@pytest.mark.parametrize("game", MINI_GAMES)
def test_direct_sums_to_one_over_the_cells_that_another_action_would_have_changed(game):
    for control, influence, first in watched(LITERAL, "binary", game)[1:]:
        direct = influence[:, 0].float()
        sums = direct.sum(-1, keepdim=True)
        assert torch.equal(control.direct > 0, influence[:, 0])
        assert torch.allclose(control.direct, direct / sums.clamp(min=1))
        assert not control.direct[first].any()
        assert not control.g[first].any()
        assert not control.reward[first].any()


def test_without_hold_and_clip_g_is_equation_9_over_the_lags():
    discounts = LITERAL.rho ** torch.arange(LAGS)
    for control, influence, _ in watched(LITERAL, "binary")[1:]:
        assert torch.allclose(control.g, torch.einsum("n,bnc->bc", discounts, influence.float()))


def test_chained_maps_keep_the_height_that_direct_control_had():
    moments = watched(LITERAL, "chained")
    sizes = [torch.ones(N)] + [influence[:, 0].sum(-1).clamp(min=1).float() for _, influence, _ in moments[1:]]
    for t in range(1, T + 1):
        control, influence, _ = moments[t]
        expected = torch.zeros_like(control.g)
        for n in range(1, min(LAGS, t) + 1):
            expected += LITERAL.rho ** (n - 1) * influence[:, n - 1] / sizes[t - n + 1][:, None]
        assert torch.allclose(control.g, expected, atol=1e-6)


def test_hold_and_clip_keep_g_between_zero_and_one_and_spread_pays_for_new_cells():
    moments = watched(LatentConfig(reward="spread"), "binary")
    for (before, _, _), (control, influence, first) in pairwise(moments):
        assert control.g.min() >= 0
        assert control.g.max() <= 1
        later = torch.einsum("n,bnc->bc", 0.99 ** torch.arange(LAGS - 1), influence[:, 1:].float()).clamp(max=1)
        gained = (torch.maximum(before.g, later) - before.g).sum(-1)
        assert torch.allclose(control.reward, gained.masked_fill(first, 0), atol=1e-5)
    assert sum(float(control.reward.sum()) for control, _, _ in moments) > 0


def test_the_difference_form_pays_what_g_gained():
    moments = watched(LITERAL, "chained")
    for (before, _, _), (control, _, first) in pairwise(moments):
        assert torch.allclose(control.reward, (control.g - before.g).sum(-1).masked_fill(first, 0), atol=1e-5)


def oracle_run(**changes):
    config = debug(TrainConfig("mega", "mini-demon", seed=1, **changes))
    return dataclasses.replace(config, control=dataclasses.replace(config.control, oracle=OracleConfig(LAGS)))


def test_a_run_with_an_oracle_trains_without_control_models_and_resumes_bit_for_bit(tmp_path):
    whole, cut = Trainer(oracle_run(), torch.device("cpu")), Trainer(oracle_run(), torch.device("cpu"))
    whole.begin()
    cut.begin()
    for _ in range(2):
        whole.iterate()
        cut.iterate()
    resumed = Trainer(oracle_run(), torch.device("cpu"))
    assert resumed.load(cut.tensors(), cut.state(), tmp_path)
    for _ in range(2):
        whole.iterate()
        resumed.iterate()
    expected, found = whole.tensors(), resumed.tensors()
    assert expected.keys() == found.keys()
    assert not any(name.startswith("control.") for name in expected)
    for name, tensor in expected.items():
        assert torch.equal(tensor, found[name]), name
    assert whole.rollout.g.any()


class FlippedDemon(MiniDemon):
    def recv(self):
        step = super().recv()
        return dataclasses.replace(step, rewards=-step.rewards)


def test_flipping_the_games_score_changes_nothing_under_an_oracle():
    weights = []
    for game in (MiniDemon, FlippedDemon):
        config = oracle_run()
        trainer = Trainer(config, torch.device("cpu"), game(config.ppo.n_envs, config.env, torch.device("cpu")))
        trainer.begin()
        for _ in range(3):
            trainer.iterate()
        weights.append(trainer.policy.state_dict())
    for name, weight in weights[0].items():
        assert torch.equal(weight, weights[1][name]), name


def test_an_oracle_is_refused_for_games_that_cannot_be_branched():
    with pytest.raises(UsageError, match=r"control\.oracle\.lags is 6, but an oracle knows mini games only"):
        TrainConfig("mega", "pong", control=ControlConfig(oracle=OracleConfig(LAGS)))
    with pytest.raises(UsageError, match="IdentityEnv cannot be branched"):
        OracleTracker(IdentityEnv(), ControlConfig(oracle=OracleConfig(LAGS)))
