"""ControlLearner: what goes in, what is learnt, and that nothing is forgotten."""

from dataclasses import replace

import pytest
import torch

from tests.unit.control.small_models import SMALL, A, changed, copy, learner, models, rollout


def test_an_update_moves_every_parameter_and_reports_finite_means():
    own = learner()
    before = copy({n: p.detach() for n, p in own.models.modules.named_parameters()})
    metrics = own.update(*rollout(0))
    after = {n: p.detach() for n, p in own.models.modules.named_parameters()}
    assert len(changed(before, after)) == len(before)
    assert all(torch.isfinite(torch.tensor(v)) for v in metrics.values())
    assert {
        "adm/action_loss",
        "adm/accuracy",
        "rtm/transition_loss",
        "rtm/attended",
        "control/transitions",
    } <= metrics.keys()


def test_what_lies_across_a_reset_has_no_influence_on_what_is_learnt():
    frames, actions, first = rollout(0, P=0)
    first[:] = False
    first[3, 1] = True  # so the action taken at time 2 in environment 1 is ignored by the game
    learnt = []
    for other in (False, True):
        own = learner()
        if other:
            actions = actions.clone()
            actions[2, 1] = (actions[2, 1] + 1) % A
        own.update(frames, actions, first)
        learnt.append(own.state_dict())
    differing = changed(*learnt)
    assert differing == {"replay.0.actions"}


def test_a_stack_never_reaches_into_the_episode_before():
    frames, actions, first = rollout(0, P=2)
    first[:] = False
    first[2] = True  # history belongs to other episodes
    learnt = []
    for fill in (0, 255):
        own = learner(replace(SMALL, normalise="fixed"))
        frames[:2] = fill
        own.update(frames, actions, first)
        learnt.append({name: t for name, t in own.state_dict().items() if not name.startswith("replay")})
    assert changed(*learnt) == set()


@pytest.mark.parametrize("n_replay", [1, 2, 3])
def test_a_resumed_run_equals_the_uninterrupted_one_bit_for_bit(n_replay):
    config = replace(SMALL, replay=n_replay, fraction=0.7, passes=2)
    through = learner(config)
    for i in range(3):
        through.update(*rollout(i))
    saved = copy(through.state_dict())
    through.update(*rollout(3))

    resumed = learner(config, seed=99)
    resumed.load_state_dict(saved)
    resumed.update(*rollout(3))
    assert changed(through.state_dict(), resumed.state_dict()) == set()
    assert through.state_dict().keys() == resumed.state_dict().keys()


def test_equal_seeds_give_equal_models_and_leave_the_global_generator_alone():
    state = torch.get_rng_state()
    a, b = learner(seed=3), learner(seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    for own in (a, b):
        own.update(*rollout(0))
    assert changed(a.state_dict(), b.state_dict()) == set()
    assert changed(models(seed=3).modules.state_dict(), models(seed=4).modules.state_dict()) != set()


def test_a_rollout_of_resets_only_teaches_nothing_and_does_not_fail():
    frames, actions, first = rollout(0)
    own = learner()
    before = copy(own.models.modules.state_dict())
    assert own.update(frames, actions, torch.ones_like(first)) == {"control/transitions": 0.0}
    assert changed(before, own.models.modules.state_dict()) == set()


def test_the_normaliser_takes_its_fill_of_frames_and_then_stays_fixed():
    own = learner(replace(SMALL, normalise_frames=30))
    own.update(*rollout(0))  # shows 6 * 4 frames
    mean = own.models.normaliser.mean.clone()
    own.update(*rollout(1))
    assert own.models.normaliser.n_seen == 30
    assert not torch.equal(own.models.normaliser.mean, mean)
    mean = own.models.normaliser.mean.clone()
    own.update(*rollout(2))
    assert torch.equal(own.models.normaliser.mean, mean)


def test_what_another_kind_of_device_has_learnt_is_loaded_though_its_random_numbers_mean_nothing_here():
    own, other = learner(), learner(seed=1)
    state = own.state_dict() | {"noise": torch.zeros(16, dtype=torch.uint8)}  # as long as those of a GPU
    before = other.noise.get_state()
    other.load_state_dict(state)
    assert torch.equal(other.noise.get_state(), before)
    assert not changed(own.models.modules.state_dict(), other.models.modules.state_dict())
