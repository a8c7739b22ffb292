"""ControlTracker: one step at a time, environment by environment."""

from dataclasses import replace

import pytest
import torch

from megareward.control.config import FORMS, LatentConfig
from megareward.control.flash import is_flash
from megareward.control.latent import above_chance, accumulate, advance, chain
from megareward.control.observation import changed_cells
from megareward.errors import UsageError
from megareward.observers.tracker import ControlTracker
from megareward.stacking import pushed
from tests.unit.control.small_models import NONE_FIRST, PX_W, SMALL, A, N, copy, models, stacks


@pytest.mark.parametrize("chance", [0.0, 1 / 6])
def test_the_tracker_accumulates_by_equation_10_and_clears_at_the_first_frame(chance):
    plain = {"combine": "sum", "hold": False, "clip": False, "flash": 1.0, "reward": "difference"}
    latent = LatentConfig(rho=0.9, above_chance=chance > 0, **plain)
    config = replace(SMALL, latent=latent)
    tracker = ControlTracker(models(config), N)
    g = torch.zeros(N, 6)
    for t, stack in enumerate(stacks(6)):
        first = NONE_FIRST.clone()
        first[2] = t == 3
        control = tracker.step(stack, torch.full((N,), t % A), first, with_relation=True)
        if t == 0:  # nothing came before
            assert control.direct.abs().sum() == control.g.abs().sum() == control.mega_reward.abs().sum() == 0
            continue
        assert control.relation is not None
        expected = accumulate((control.direct - chance).clamp(min=0), chain(control.relation, g), 0.9)
        if t == 3:
            assert (control.g[2] == 0).all()
            assert control.mega_reward[2] == 0
        real = ~first
        torch.testing.assert_close(control.g[real], expected[real])
        torch.testing.assert_close(control.direct[real].sum(-1), torch.ones(int(real.sum())))
        torch.testing.assert_close(control.relation[real].sum(-1), torch.ones(int(real.sum()), 6))
        torch.testing.assert_close(control.mega_reward[real], (expected - g).sum(-1)[real])
        g = control.g
    assert g.max() > 1 / 6 - chance  # something was passed on


def test_one_environments_frames_and_actions_do_not_reach_the_map_of_another():
    results = []
    for other in (0, 1):
        tracker = ControlTracker(models(), N)
        for stack in stacks(4):
            stack[1] = 255 * other
            control = tracker.step(stack, torch.tensor([0, other, 1, 2]), NONE_FIRST)
        results.append(control.g)
    rest = [0, 2, 3]
    assert torch.equal(results[0][rest], results[1][rest])
    assert not torch.equal(results[0][1], results[1][1])


def test_a_resumed_tracker_goes_on_exactly():
    through = ControlTracker(models(), N)
    frames = stacks(6)
    for stack in frames[:3]:
        through.step(stack, torch.zeros(N, dtype=torch.long), NONE_FIRST)
    resumed = ControlTracker(models(), N, seed=5)
    resumed.load_state_dict(copy(through.state_dict()))
    for stack in frames[3:]:
        a = through.step(stack, torch.ones(N, dtype=torch.long), NONE_FIRST)
        b = resumed.step(stack, torch.ones(N, dtype=torch.long), NONE_FIRST)
        assert torch.equal(a.g, b.g)


def test_the_tracker_uses_the_newest_frames_of_a_longer_stack_and_refuses_a_shorter_one():
    tracker, other = ControlTracker(models(), N), ControlTracker(models(), N)
    longer = torch.cat([stacks(2, seed=7), stacks(2)], 2)
    for t in range(2):
        a = tracker.step(stacks(2)[t], torch.zeros(N, dtype=torch.long), NONE_FIRST)
        b = other.step(longer[t], torch.zeros(N, dtype=torch.long), NONE_FIRST)
    assert torch.equal(a.g, b.g)
    with pytest.raises(UsageError, match=r"stacks of 2 frames; rtm\.stack is 3"):
        tracker.step(stacks(1)[0, :, :2], torch.zeros(N, dtype=torch.long), NONE_FIRST)


@pytest.mark.parametrize("still_on_itself", [True, False])
def test_a_cell_that_did_not_change_relies_on_itself(still_on_itself):
    rtm = replace(SMALL.rtm, attention="softmax", still_on_itself=still_on_itself)
    tracker = ControlTracker(models(replace(SMALL, rtm=rtm)), N)
    stack = stacks(1)[0]
    for changes in (False, True):  # one pixel of cell 4, the second row's middle, in environment 2 only
        newest = stack[:, -1:].clone()
        newest[2, 0, 12, 11] += changes
        stack = torch.cat([stack[:, 1:], newest], 1)
        control = tracker.step(stack, torch.zeros(N, dtype=torch.long), NONE_FIRST, with_relation=True)
    free = torch.zeros(N, 6, dtype=torch.bool)
    free[2, 4] = True
    on_itself = (control.relation == torch.eye(6)).all(-1)
    assert torch.equal(on_itself, ~free) == still_on_itself
    assert not on_itself[free].any()


@pytest.mark.parametrize("reward", FORMS)
def test_with_all_options_a_step_is_the_one_that_true_maps_go_through(reward):
    """From its own direct control and relation, by the `advance` that the oracle uses, too."""
    latent = LatentConfig(rho=0.9, combine="sum", hold=True, clip=True, above_chance=True, reward=reward)
    own = models(replace(SMALL, latent=latent))
    own.background.observe(stacks(1)[0, :, -1])
    tracker, generator = ControlTracker(own, N), torch.Generator().manual_seed(3)
    g, memory, stack = torch.zeros(N, 6), torch.zeros(N, 6), stacks(1)[0]
    tracker.step(stack, torch.zeros(N, dtype=torch.long), NONE_FIRST)
    flashes, behind = 0, 0
    for t in range(12):
        newest = stack[:, -1].clone()
        newest[:, : 4 * (t % 4)] = torch.randint(256, (N, 4 * (t % 4), PX_W), dtype=torch.uint8, generator=generator)
        newest[1, 8:] = own.background.frame[8:]  # half of environment 1 is background
        flash = is_flash(stack[:, -1], newest, latent.flash)
        background = own.background.shown(newest, own.grid)
        changed = changed_cells(stack[:, -1], newest, own.grid)
        first = NONE_FIRST.clone()
        first[2] = t == 6
        stack = pushed(stack, newest, first)
        control = tracker.step(stack, torch.full((N,), t % A), first, with_relation=True)
        assert control.relation is not None
        passed_on = chain(control.relation, g)
        given = (g, memory, above_chance(control.direct), passed_on, first, flash, background, changed)
        after = advance(*given, latent)
        assert torch.equal(control.g, after.g)
        assert torch.equal(tracker.memory, after.memory)
        assert torch.equal(control.mega_reward, after.mega_reward)
        g, memory = after.g, after.memory
        flashes, behind = flashes + int(flash.sum()), behind + int(background.sum())
    assert flashes > 0
    assert behind > 0
    assert g.any()


@pytest.mark.parametrize("n_groups", [2, 4])
def test_environments_in_groups_have_the_maps_that_they_have_together(n_groups):
    together, grouped = ControlTracker(models(), N), ControlTracker(models(), N, n_groups=n_groups)
    n, actions = N // n_groups, torch.arange(N) % A
    for stack in stacks(4):
        whole = together.step(stack, actions, NONE_FIRST)
        for group in range(n_groups):
            rows = slice(group * n, (group + 1) * n)
            part = grouped.step(stack[rows], actions[rows], NONE_FIRST[rows], group=group)
            torch.testing.assert_close(part.g, whole.g[rows])
    for one, two in zip(together.running, grouped.running, strict=True):
        torch.testing.assert_close(one, two)
