"""ControlModels and ControlTracker: what goes in, what comes out, and that nothing is forgotten."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from megareward.control.config import AdmConfig, ControlConfig, ExecutionConfig, LatentConfig, RtmConfig
from megareward.control.latent import accumulate
from megareward.control.models import ControlModels
from megareward.control.observation import anchor_noise
from megareward.errors import UsageError
from megareward.observers.tracker import ControlTracker

T, N, A, PX_H, PX_W = 5, 4, 3, 16, 24
SMALL = ControlConfig(
    H=2,
    W=3,
    adm=AdmConfig(channels=2, features=6, hidden=5),
    rtm=RtmConfig(attention="sparsemax", channels=2, features=16, gamma_features=12, stack=3),
    latent=LatentConfig(flash=1.0),  # these screens are noise, so every step would be one
    batch=8,
)


def models(config: ControlConfig = SMALL, seed: int = 0) -> ControlModels:
    return ControlModels(config, (PX_H, PX_W), A, seed=seed)


def rollout(seed: int, P: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    L = P + T + 1
    frames = torch.randint(256, (L, N, PX_H, PX_W), dtype=torch.uint8, generator=generator)
    actions = torch.randint(A, (T, N), generator=generator)
    first = torch.rand(L, N, generator=generator) < 0.2
    return frames, actions, first


def changed(before: dict[str, Tensor], after: dict[str, Tensor]) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}


def copy(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in state.items()}


def test_an_update_moves_every_parameter_and_reports_finite_means():
    m = models()
    before = copy({n: p.detach() for n, p in m.modules.named_parameters()})
    metrics = m.update(*rollout(0))
    after = {n: p.detach() for n, p in m.modules.named_parameters()}
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
        m = models()
        if other:
            actions = actions.clone()
            actions[2, 1] = (actions[2, 1] + 1) % A
        m.update(frames, actions, first)
        learnt.append(m.state_dict())
    differing = changed(*learnt)
    assert differing == {"replay.0.actions"}


def test_a_stack_never_reaches_into_the_episode_before():
    frames, actions, first = rollout(0, P=2)
    first[:] = False
    first[2] = True  # history belongs to other episodes
    learnt = []
    for fill in (0, 255):
        m = models(replace(SMALL, normalise="fixed"))
        frames[:2] = fill
        m.update(frames, actions, first)
        learnt.append({name: t for name, t in m.state_dict().items() if not name.startswith("replay")})
    assert changed(*learnt) == set()


@pytest.mark.parametrize("n_replay", [1, 2, 3])
def test_a_resumed_run_equals_the_uninterrupted_one_bit_for_bit(n_replay):
    config = replace(SMALL, replay=n_replay, fraction=0.7, passes=2)
    through = models(config)
    for i in range(3):
        through.update(*rollout(i))
    saved = copy(through.state_dict())
    through.update(*rollout(3))

    resumed = models(config, seed=99)
    resumed.load_state_dict(saved)
    resumed.update(*rollout(3))
    assert changed(through.state_dict(), resumed.state_dict()) == set()
    assert through.state_dict().keys() == resumed.state_dict().keys()


def test_equal_seeds_give_equal_models_and_leave_the_global_generator_alone():
    state = torch.get_rng_state()
    a, b = models(seed=3), models(seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    for m in (a, b):
        m.update(*rollout(0))
    assert changed(a.state_dict(), b.state_dict()) == set()
    assert changed(models(seed=3).modules.state_dict(), models(seed=4).modules.state_dict()) != set()


def test_a_rollout_of_resets_only_teaches_nothing_and_does_not_fail():
    frames, actions, first = rollout(0)
    m = models()
    before = copy(m.modules.state_dict())
    assert m.update(frames, actions, torch.ones_like(first)) == {"control/transitions": 0.0}
    assert changed(before, m.modules.state_dict()) == set()


def test_the_normaliser_takes_its_fill_of_frames_and_then_stays_fixed():
    m = models(replace(SMALL, normalise_frames=30))
    m.update(*rollout(0))  # shows 6 * 4 frames
    mean = m.normaliser.mean.clone()
    m.update(*rollout(1))
    assert m.normaliser.n_seen == 30
    assert not torch.equal(m.normaliser.mean, mean)
    mean = m.normaliser.mean.clone()
    m.update(*rollout(2))
    assert torch.equal(m.normaliser.mean, mean)


def test_normalised_frames_are_centred_per_pixel_and_scaled_as_a_whole():
    m = models()
    frames, actions, first = rollout(0, P=0)
    m.update(frames, actions, first)
    x = frames.flatten(0, 1).double()
    expected = (x - x.mean(0)) / x.std(0, correction=0).mean()
    torch.testing.assert_close(m.normaliser(frames).flatten(0, 1).double(), expected, rtol=1e-5, atol=1e-5)


def test_fused_kernels_on_a_cpu_are_refused():
    with pytest.raises(UsageError, match=r"execution\.fused is on"):
        models(replace(SMALL, execution=ExecutionConfig(fused="on")))


def stacks(T: int, seed: int = 0) -> Tensor:
    return torch.randint(256, (T, N, 3, PX_H, PX_W), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


NONE_FIRST = torch.zeros(N, dtype=torch.bool)


@pytest.mark.parametrize("chance", [0.0, 1 / 6])
def test_the_tracker_accumulates_by_equation_10_and_clears_at_the_first_frame(chance):
    plain = {"hold": False, "clip": False, "flash": 1.0, "reward": "difference"}
    latent = LatentConfig(rho=0.9, above_chance=chance > 0, **plain)
    config = replace(SMALL, latent=latent)
    tracker = ControlTracker(models(config), N)
    g = torch.zeros(N, 6)
    for t, stack in enumerate(stacks(6)):
        first = NONE_FIRST.clone()
        first[2] = t == 3
        control = tracker.step(stack, torch.full((N,), t % A), first, with_relation=True)
        if t == 0:  # nothing came before
            assert control.direct.abs().sum() == control.g.abs().sum() == control.reward.abs().sum() == 0
            continue
        assert control.relation is not None
        expected = accumulate((control.direct - chance).clamp(min=0), control.relation, g, 0.9)
        if t == 3:
            assert (control.g[2] == 0).all()
            assert control.reward[2] == 0
        real = ~first
        torch.testing.assert_close(control.g[real], expected[real])
        torch.testing.assert_close(control.direct[real].sum(-1), torch.ones(int(real.sum())))
        torch.testing.assert_close(control.relation[real].sum(-1), torch.ones(int(real.sum()), 6))
        torch.testing.assert_close(control.reward[real], (expected - g).sum(-1)[real])
        g = control.g
    assert g.max() > (1 / 6 - chance)  # something was passed on


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


def test_models_trained_on_another_kind_of_device_are_loaded_though_its_dice_mean_nothing_here():
    m, other = models(), models(seed=1)
    state = m.state_dict() | {"noise": torch.zeros(16, dtype=torch.uint8)}  # as long as those of a GPU
    before = other.noise.get_state()
    other.load_state_dict(state)
    assert torch.equal(other.noise.get_state(), before)
    assert not changed(m.modules.state_dict(), other.modules.state_dict())


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


@pytest.mark.parametrize("kind", ["cell", "pixel", "gauss"])
def test_the_anchor_lifts_or_lowers_whole_cells_or_pixels(kind):
    grid = models().grid
    noise = anchor_noise(kind, 50, grid, torch.Generator().manual_seed(0), torch.device("cpu"))
    assert noise.shape == (50, PX_H, PX_W)
    cells = grid.to_cells(noise).flatten(2)  # (50, HW, pixels)
    assert (cells == cells[..., :1]).all() == (kind != "pixel")
    assert (noise.abs() == 1).all() == (kind != "gauss")  # never near the mean, which any source could draw
    assert noise.mean().abs() < 0.2
