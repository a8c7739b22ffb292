"""what counts as background, and what a cell forgets that shows nothing else."""

from dataclasses import replace

import pytest
import torch

from megareward.control.background import SAMPLE, Background
from megareward.control.config import LatentConfig
from megareward.control.grid import Grid
from megareward.control.latent import advance
from megareward.errors import UsageError
from megareward.observers.tracker import ControlTracker
from tests.unit.control.small_models import SMALL, A, N, copy, learner, models, rollout

CPU = torch.device("cpu")
PX_H, PX_W = 4, 9
GRID = Grid(2, 3, PX_H, PX_W)


def screens(n: int, seed: int = 0) -> torch.Tensor:
    """A pattern behind, and one bright pixel that wanders over it, now here, now there."""
    behind = (torch.arange(PX_H * PX_W) % 7).to(torch.uint8).reshape(PX_H, PX_W)
    frames = behind.expand(n, -1, -1).clone()
    place = torch.randint(PX_H * PX_W, (n,), generator=torch.Generator().manual_seed(seed))
    frames.flatten(1)[torch.arange(n), place] = 255
    return frames


def test_the_background_is_what_most_frames_show_and_a_cell_with_anything_else_is_not():
    background = Background((PX_H, PX_W), 40, CPU)
    frames = screens(40)
    background.observe(frames)
    assert torch.equal(background.frame, (torch.arange(PX_H * PX_W) % 7).to(torch.uint8).reshape(PX_H, PX_W))
    shown = background.shown(frames, GRID)
    assert shown.shape == (40, 6)
    assert (shown.sum(1) == 5).all()
    for frame, cells in zip(frames, shown, strict=True):
        where = int((frame == 255).flatten().nonzero())
        row, column = divmod(where, PX_W)
        assert not cells[(row // 2) * 3 + column // 3]


def test_nothing_is_background_before_anything_was_seen():
    background = Background((PX_H, PX_W), 40, CPU)
    assert not background.shown(torch.zeros(5, PX_H, PX_W, dtype=torch.uint8), GRID).any()


@pytest.mark.parametrize("piece", [1, 7, 64, 300, 5000])
def test_the_sample_is_spread_over_all_frames_however_they_arrive_and_then_stays_fixed(piece):
    n = 4 * SAMPLE
    background = Background((1, 1), n, CPU)
    frames = (torch.arange(n + 500) // 8).clamp(max=255).to(torch.uint8).reshape(-1, 1, 1)
    for part in frames[:n].split(piece):
        background.observe(part)
    assert SAMPLE // 3 < len(background.sample) <= SAMPLE
    assert background.sample.flatten().tolist() == frames[:n:9].flatten().tolist()
    before = background.frame.clone()
    background.observe(frames[n:])
    assert background.n_seen == n
    assert torch.equal(background.frame, before)


def test_its_state_goes_on_where_it_was():
    whole, first = Background((PX_H, PX_W), 90, CPU), Background((PX_H, PX_W), 90, CPU)
    for seed in range(2):
        whole.observe(screens(30, seed))
        first.observe(screens(30, seed))
    second = Background((PX_H, PX_W), 90, CPU)
    second.load_state_dict(copy(first.state_dict()))
    whole.observe(screens(30, 2))
    second.observe(screens(30, 2))
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), name


def test_models_saved_before_there_was_a_background_still_load():
    old = {name: tensor for name, tensor in models().state_dict().items() if not name.startswith("background.")}
    fresh = models()
    fresh.load_state_dict(old)
    assert not fresh.background.known


def test_models_and_their_lagged_copy_know_the_same_background():
    own, lagged = learner(), models()
    own.update(*rollout(0))
    assert not lagged.background.known
    with torch.no_grad():
        lagged.copy_from(own.models)
    assert lagged.background.known
    assert torch.equal(lagged.background.frame, own.models.background.frame)


def test_what_is_kept_by_hand():
    """Cell 0 relies on itself, cell 1 on cell 0. Cell 1 shows background, and keeps half."""
    nobody, background = torch.tensor([False]), torch.tensor([[False, True]])
    config = LatentConfig(rho=0.5, combine="sum", hold=False, clip=False, background=0.5, reward="difference")
    g_prev, direct = torch.tensor([[0.8, 0.2]]), torch.tensor([[0.1, 0.0]])
    after = advance(g_prev, g_prev, direct, torch.tensor([[0.8, 0.8]]), nobody, None, background, background, config)
    torch.testing.assert_close(after.g, torch.tensor([[0.5, 0.2]]))
    torch.testing.assert_close(after.mega_reward, torch.tensor([-0.3]))
    g_prev, holds = torch.tensor([[0.2, 0.8]]), replace(config, hold=True)  # what is held is forgotten, too
    after = advance(g_prev, g_prev, direct, torch.tensor([[0.2, 0.2]]), nobody, None, background, background, holds)
    torch.testing.assert_close(after.g, torch.tensor([[0.2, 0.2]]))


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_the_tracker_forgets_where_the_newest_frame_shows_background_only(share):
    plain = {
        "combine": "sum",
        "hold": False,
        "clip": False,
        "above_chance": False,
        "flash": 1.0,
        "reward": "difference",
    }
    latent = LatentConfig(rho=0.9, background=share, **plain)
    config = replace(SMALL, latent=latent)
    m = models(config)
    stack = torch.randint(256, (N, 3, *m.frame_shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    m.background.frame.copy_(stack[0, -1])  # so the whole newest frame of environment 0 is background, and no other
    m.background.known.fill_(True)
    tracker, nobody = ControlTracker(m, N), torch.zeros(N, dtype=torch.bool)
    tracker.step(stack.roll(1, 0), torch.zeros(N, dtype=torch.int64), nobody)
    tracker.g.copy_(torch.rand(N, 6, generator=torch.Generator().manual_seed(1)))
    g_prev = tracker.g.clone()
    control = tracker.step(stack, torch.full((N,), A - 1), nobody, with_relation=True)
    passed_on = torch.einsum("nij,nj->ni", control.relation, g_prev)
    passed_on[0] *= share
    torch.testing.assert_close(control.g, 0.9 * passed_on + control.direct)


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(UsageError, match=r"latent\.background is"):
        LatentConfig(background=share)


def test_where_cells_hold_and_nothing_is_forgotten_the_memory_is_g_itself():
    """So the released form, which compares with g, is what `spread` still is there."""
    latent = LatentConfig(rho=0.9, combine="sum", hold=True, background=1.0, flash=1.0, reward="spread")
    tracker = ControlTracker(models(replace(SMALL, latent=latent)), N)
    generator, first = torch.Generator().manual_seed(2), torch.zeros(N, dtype=torch.bool)
    for t in range(8):
        stack = torch.randint(256, (N, 3, *tracker.models.frame_shape), dtype=torch.uint8, generator=generator)
        first[1] = t == 5
        tracker.step(stack, torch.full((N,), t % A), first)
        assert torch.equal(tracker.memory, tracker.g)
    assert tracker.g[1].sum() < tracker.g[0].sum()  # its episode is younger


@pytest.mark.parametrize("form", ["record", "spread"])
def test_coming_back_to_a_cell_that_has_forgotten_pays_only_for_the_time_in_between(form):
    """One cell to itself, its control full, then background for three steps, then shown again."""
    rho = 0.9
    g, memory = torch.ones(1, 1), torch.ones(1, 1)
    config, paid = LatentConfig(rho=rho, background=0.0, reward=form), []
    for shows, direct in ((False, 0.0), (False, 0.0), (False, 0.0), (True, 1.0), (True, 0.0)):
        background = torch.tensor([[not shows]])
        g, memory, reward = advance(
            g, memory, torch.tensor([[direct]]), g, torch.tensor([False]), None, background, background, config
        )
        paid.append(reward.item())
    back = {"record": (1 - rho**3, 0.0), "spread": (0.0, 0.0)}[form]  # spread does not pay for direct control
    assert paid == pytest.approx([0.0, 0.0, 0.0, *back], abs=1e-6)


def test_a_new_episode_forgets_g_and_memory_of_its_environment_only():
    tracker = ControlTracker(models(), N)
    generator = torch.Generator().manual_seed(3)
    stack = torch.randint(256, (N, 3, *tracker.models.frame_shape), dtype=torch.uint8, generator=generator)
    for _ in range(3):
        tracker.step(stack.roll(1, 0), torch.zeros(N, dtype=torch.int64), torch.zeros(N, dtype=torch.bool))
        tracker.step(stack, torch.zeros(N, dtype=torch.int64), torch.zeros(N, dtype=torch.bool))
    before = {name: tensor.clone() for name, tensor in tracker.state_dict().items()}
    which = torch.zeros(N, dtype=torch.bool)
    which[2] = True
    tracker.begin_anew(255 - stack, which)
    for name, new in (("g", 0), ("memory", 0), ("last", 255 - stack[2])):
        after = tracker.state_dict()[name]
        assert (after[2] == new).all()
        assert torch.equal(after[~which], before[name][~which])
        assert not torch.equal(before[name][2], after[2])
