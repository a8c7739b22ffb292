"""Empowerment: what is learnt from which steps, what it is worth, and two worlds in which the answer is plain."""

import dataclasses
import itertools
import math

import pytest
import torch

from megareward.errors import UsageError
from megareward.reward_stream import RewardStream
from megareward.rewards import METHODS
from megareward.rewards.emp import Empowerment, Sequences, starts
from megareward.rewards.settings import EmpConfig
from tests.unit.rewards.recordings import (
    ATARI,
    SMALL,
    A,
    N,
    T,
    assert_computing_changes_nothing,
    assert_resets_alone_teach_nothing,
    assert_resets_do_not_matter,
    assert_resumes,
    copied,
    noise,
    record,
    world,
)


def emp(world, ends_count: bool = True, **settings) -> Empowerment:
    return Empowerment(
        EmpConfig(**{"steps": 2, "minibatches": 2, "normalise_frames": 20, **settings}), world, ends_count
    )


@pytest.mark.parametrize("frame_shape", [SMALL, ATARI])
def test_computing_is_pure_and_learning_resumes_exactly(frame_shape):
    reward = emp(world(frame_shape))
    assert_computing_changes_nothing(reward, noise(frame_shape))
    reward.update(noise(frame_shape))
    assert_computing_changes_nothing(reward, noise(frame_shape))
    assert_resumes(emp, frame_shape)


def test_frames_behind_a_reset_neither_pay_nor_teach():
    assert_resets_do_not_matter(emp)
    assert_resets_alone_teach_nothing(emp)


@pytest.mark.parametrize("K", range(1, T + 1))
def test_sequences_start_where_the_next_steps_all_lie_in_one_episode(K):
    real = noise().real
    wanted = [(t, n) for t in range(T - K + 1) for n in range(N) if all(real[t + k, n] for k in range(K))]
    assert list(zip(*(x.tolist() for x in starts(real, K)), strict=True)) == wanted


def test_a_rollout_that_holds_no_sequence_is_refused_with_the_remedy():
    with pytest.raises(UsageError, match=r"--reward.steps is 6, but a rollout has 5 steps"):
        emp(world(), steps=T + 1).update(noise())
    with pytest.raises(UsageError, match=r"--reward.steps is 0; use at least 1"):
        EmpConfig(steps=0)


def test_what_is_learnt_are_the_actions_between_two_frames_and_the_frames_themselves():
    """The decoder is handed s_t, s_{t+K} and a_t .. a_{t+K-1} of one environment; a code here is a frame's corner."""
    reward, recorded, K = emp(world(), minibatches=1), noise(), 2
    corners = recorded.frames.flatten(2)[..., : reward.code[-1].out_features].float() / 255  # (T+1, N, F)
    reward.look = lambda frames: frames.flatten(1)[:, : corners.shape[-1]].float() / 255
    handed, plain = [], reward.errors
    reward.errors = lambda *batch: (handed.append(batch), plain(*batch))[1]
    reward.update(recorded)
    [(now, then, actions)] = handed
    found = set()
    for i in range(len(actions)):
        [(t, n)] = (corners == now[i]).all(-1).nonzero().tolist()
        assert torch.equal(then[i], corners[t + K, n])
        assert actions[i].tolist() == recorded.actions[t : t + K, n].tolist()
        found.add((t, n))
    assert found == set(zip(*(x.tolist() for x in starts(recorded.real, K)), strict=True))


@pytest.mark.parametrize("K", [1, 3])
def test_the_probabilities_of_all_sequences_add_up_to_1(K):
    torch.manual_seed(0)
    model = Sequences(n_actions=4, n_context=5, units=6)
    torch.nn.init.normal_(model.logits.weight)
    every = torch.tensor(list(itertools.product(range(4), repeat=K)))
    context = torch.randn(5).expand(len(every), 5)
    probabilities = model(context, every).exp()
    assert probabilities.std() > 0.01 / len(every)
    torch.testing.assert_close(probabilities.sum(), torch.tensor(1.0))


def test_the_squared_error_teaches_source_and_psi_but_not_the_decoder():
    reward = emp(world())
    F = reward.code[-1].out_features
    now, then = torch.randn(2, 9, F).unbind()
    errors = reward.errors(now, then, torch.randint(A, (9, 2)))
    errors["source_loss"].mean().backward()
    assert all(p.grad is None for p in reward.decoder.parameters())
    assert any(p.grad.any() for p in reward.psi.parameters())
    assert any(p.grad.any() for p in reward.source.parameters())


def test_a_step_is_worth_the_empowerment_of_where_it_leads_and_an_end_nothing_if_ends_count():
    recorded = noise(first=[(4, 1)])
    terminated = torch.zeros(T + 1, N, dtype=torch.bool)
    terminated[3, 1] = True
    recorded = dataclasses.replace(recorded, terminated=terminated)
    for ends_count in (True, False):
        reward = emp(world(), ends_count)
        reward.psi[-1].bias.data.fill_(1.0)
        worth = reward.compute(recorded)
        for t in range(T):
            for n in range(N):
                alone = reward.psi(reward.look(recorded.frames[t + 1, n : n + 1]))[0, 0].detach()
                torch.testing.assert_close(worth[t, n], alone * (not (ends_count and terminated[t + 1, n])))


@pytest.mark.parametrize(("psi", "worth"), [(-1.0, 0.0), (100.0, 2 * math.log(A))])
def test_it_stays_between_nothing_and_one_outcome_for_every_sequence(psi, worth):
    reward = emp(world())
    reward.psi[-1].bias.data.fill_(psi)
    torch.testing.assert_close(reward.compute(noise()), torch.full((T, N), worth))


def bars(obeys: bool, seed: int, n_actions: int = 4):
    """The frame shows a bar in one of four places: where the action says, or anywhere."""
    T, N, generator = 16, 16, torch.Generator().manual_seed(seed)
    actions = torch.randint(n_actions, (T, N), generator=generator)
    shown = actions if obeys else torch.randint(n_actions, (T, N), generator=generator)
    shown = torch.cat([torch.zeros(1, N, dtype=torch.int64), shown])  # (T+1, N)
    bright = torch.arange(16).expand(T + 1, N, 12, 16) // 4 == shown[..., None, None]
    return record(bright.to(torch.uint8) * 200, actions)


@pytest.mark.parametrize(("obeys", "nats"), [(True, math.log(4)), (False, 0.0)])
def test_a_world_that_obeys_is_worth_the_logarithm_of_the_actions_and_one_that_does_not_is_worth_nothing(obeys, nats):
    reward = emp(world((12, 16), n_envs=16, n_actions=4), steps=1, learning_rate=3e-3)
    for seed in range(100):
        reward.update(bars(obeys, seed))
    assert abs(reward.compute(bars(obeys, 1000)).mean() - nats) < 0.1


def test_the_seed_decides_the_networks_and_the_global_random_state_stays():
    before = torch.get_rng_state()
    one, two, other = emp(world()), emp(world()), emp(world(seed=2))
    assert torch.equal(before, torch.get_rng_state())
    weights = [copied(reward.learner.networks.state_dict())["decoder.start.weight"] for reward in (one, two, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_the_stream_follows_the_rule_for_death_and_is_scaled():
    for rule in (True, False):
        [(stream, reward)] = METHODS["emp"].build(EmpConfig(), dataclasses.replace(world(), episodic=rule))
        assert stream == RewardStream("emp", discount=0.99, episodic=rule, normalise=True)
        assert reward.ends_count == rule
