"""Relations by sight: who can draw what, and who is given the credit."""

from dataclasses import replace

import pytest
import torch

from megareward.control.config import ControlConfig, ExecutionConfig, RtmConfig
from megareward.control.grid import Grid
from megareward.control.learning.learner import ControlLearner
from megareward.control.local_rtm import DOUBT, NOISE, LocalRTM
from megareward.control.models import ControlModels

N, K, A, SCALE = 4, 2, 3, 20.0
GRID = Grid(2, 3, 16, 30)  # cells of 8 x 10
CONFIG = RtmConfig(model="local", stack=K, local_features=5)


def rtm(grid: Grid = GRID, credit: str = "explained") -> LocalRTM:
    torch.manual_seed(0)
    return LocalRTM(grid, replace(CONFIG, local_credit=credit), A)


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("grid", [GRID, Grid(2, 3, 42, 63), Grid(4, 4, 84, 84)])
def test_windows_are_cells_with_what_is_around_them(grid):
    own, frames = rtm(grid), noise(N, K, grid.px_h, grid.px_w)
    windows, (_, up, side_h), (_, left, side_w) = own.windows(frames), own.rows, own.columns
    assert windows.shape == (N, K, grid.n_cells, side_h, side_w)
    for cell in range(grid.n_cells):
        y0, x0 = cell // grid.W * grid.cell_h - up, cell % grid.W * grid.cell_w - left
        for y, x in ((0, 0), (up, left), (side_h - 1, side_w - 1), (up - 1, left + 3)):
            on_screen = 0 <= y0 + y < grid.px_h and 0 <= x0 + x < grid.px_w
            expected = frames[:, :, y0 + y, x0 + x] if on_screen else torch.zeros(N, K)
            assert torch.equal(windows[:, :, cell, y, x], expected)
            assert own.inside[cell, y, x] == on_screen
    assert torch.equal(windows[..., own.own.bool()].flatten(-1), grid.to_cells(frames).flatten(-2))


@pytest.mark.parametrize("side", [84, 32])
def test_a_source_draws_from_its_own_cell_only(side):
    grid = Grid(4, 4, side, side)
    own, actions = rtm(grid), torch.arange(N) % A
    seen = noise(N, K, own.rows.side, own.columns.side)
    elsewhere = torch.where(own.own.bool(), seen, noise(*seen.shape, seed=1))
    assert torch.equal(own.draw(seen, actions), own.draw(elsewhere, actions))
    assert not torch.equal(own.draw(seen, actions), own.draw(seen + own.own, actions))
    assert not torch.equal(own.draw(seen, actions), own.draw(seen, (actions + 1) % A))


def relation_as_loops(own, stack, actions, now, changed, empty):
    """Pixel by pixel, source by source."""
    grid, HW = own.grid, own.grid.n_cells
    windows, change = own.windows(stack).transpose(1, 2), now - stack[:, -1]
    relation = torch.zeros(len(stack), HW, HW)
    for n in range(len(stack)):
        drawn = own.draw(windows[n], actions[n].repeat(HW))
        for to in range(HW):
            y0, x0 = to // grid.W * grid.cell_h, to % grid.W * grid.cell_w
            shares, weights = [], []
            for y in range(y0, y0 + grid.cell_h):
                for x in range(x0, x0 + grid.cell_w):
                    if not changed[n, y, x]:
                        continue
                    likelihood = torch.zeros(HW, dtype=torch.float64)
                    blank = -((change[n, y, x].double() / (NOISE * SCALE)) ** 2) / 2
                    for source in range(HW):
                        if empty[n, source] and own.config.local_credit == "explained":
                            continue
                        at_y = y - source // grid.W * grid.cell_h + own.rows.reach
                        at_x = x - source % grid.W * grid.cell_w + own.columns.reach
                        if 0 <= at_y < own.rows.side and 0 <= at_x < own.columns.side:
                            error = (drawn[source, at_y, at_x] - change[n, y, x]).double()
                            likelihood[source] = (-((error / (NOISE * SCALE)) ** 2) / 2).exp()
                    if likelihood.sum() > 0:
                        shares.append(likelihood / likelihood.sum())
                        weights.append((likelihood.max().log() - blank).clamp(min=0))
            itself = torch.eye(HW, dtype=torch.float64)[to]
            if own.config.local_credit == "even":
                relation[n, to] = torch.stack(shares).mean(0) if shares else itself
            else:
                total = sum((w * s for w, s in zip(weights, shares, strict=True)), DOUBT * itself)
                relation[n, to] = total / total.sum()
    return relation


@pytest.mark.parametrize("form", ["share_out_changed", "share_out_everywhere"])
@pytest.mark.parametrize("credit", ["explained", "even"])
def test_the_relation_as_loops(credit, form, monkeypatch):
    own, actions = rtm(credit=credit), torch.arange(N) % A
    monkeypatch.setattr(own, "share_out_changed", getattr(own, form))  # a CPU takes this one
    stack, now = noise(N, K, 16, 30), noise(N, 16, 30, seed=1)
    changed = noise(N, 16, 30, seed=2) > 1
    changed[0, :8, :10] = False  # a cell of the first environment is still
    empty = noise(N, 6, seed=3) > 0.8
    empty[1] = True  # nobody is asked
    with torch.no_grad():
        relation = own.attend(stack, actions, now, changed, empty, SCALE)
        slow = relation_as_loops(own, stack, actions, now, changed, empty)
    torch.testing.assert_close(relation, slow, atol=1e-5, rtol=1e-4)
    assert credit == "even" or torch.equal(relation[1], torch.eye(6))
    torch.testing.assert_close(relation.sum(-1), torch.ones(N, 6))
    assert torch.equal(relation[0, 0], torch.eye(6)[0])
    assert (relation[:, 0, 2] == 0).all()  # two cells away
    assert (relation[:, 0, 1] > 0).any()


@pytest.mark.parametrize("grid", [Grid(2, 3, 42, 63), Grid(3, 4, 15, 20), Grid(4, 4, 84, 84)])
@pytest.mark.parametrize("credit", ["explained", "even"])
@pytest.mark.parametrize("share", [0.02, 1.0])
def test_the_changed_pixels_alone_give_what_all_pixels_give(grid, credit, share):
    own, actions = rtm(grid, credit), torch.arange(N) % A
    stack, change = noise(N, K, grid.px_h, grid.px_w), noise(N, grid.px_h, grid.px_w, seed=1)
    changed = torch.rand(N, grid.px_h, grid.px_w, generator=torch.Generator().manual_seed(2)) < share
    asked = noise(N, grid.n_cells, seed=3) > -1 if credit == "explained" else torch.ones(N, grid.n_cells).bool()
    with torch.no_grad():
        few, all_of_them = (
            share_out(stack, actions, change, changed, asked, NOISE * SCALE)
            for share_out in (own.share_out_changed, own.share_out_everywhere)
        )
    torch.testing.assert_close(few, all_of_them, atol=1e-3, rtol=1e-4)
    assert few.sum() > 0


def test_on_a_still_screen_every_cell_relies_on_itself():
    grid = Grid(2, 2, 42, 42)  # large enough for blocks
    own, stack = rtm(grid), noise(N, K, 42, 42)
    still = torch.zeros(N, 42, 42, dtype=torch.bool)
    empty = torch.zeros(N, 4, dtype=torch.bool)
    relation = own.attend(stack, torch.zeros(N, dtype=torch.long), stack[:, -1], still, empty, SCALE)
    assert own.block > 1
    assert torch.equal(relation, torch.eye(4).expand(N, 4, 4))


def test_the_loss_as_loops_and_sources_are_cells_near_which_something_changed():
    own, actions = rtm(), torch.arange(N) % A
    stack, now = noise(N, K, 16, 30), noise(N, 16, 30, seed=1)
    changed = torch.zeros(N, 16, 30, dtype=torch.bool)
    changed[:, 2, 2] = True  # inside cell 0, and near no other
    changed[1, 2, 8] = True  # near cell 1 as well
    sources = own.sources(changed, torch.rand(N, 6, generator=torch.Generator().manual_seed(0)), 2)
    assert (sources == 0).any(1).all()
    assert set(sources[1].tolist()) == {0, 1}
    windows, change = own.windows(stack).transpose(1, 2), own.windows(now - stack[:, -1])
    total = 0.0
    for n in range(N):
        for source in sources[n].tolist():
            drawn = own.draw(windows[n, source][None], actions[n][None])[0]
            total += ((drawn - change[n, source]) ** 2 * own.inside[source]).sum().item()
    assert own.loss(stack, actions, now, sources).item() == pytest.approx(total / (N * 2 * 80), rel=1e-4)


def moving_dots(T: int, n_envs: int, seed: int):
    """A bright dot of 2 x 2 pixels goes to the right, one pixel a step, from a place of its own; nothing else moves."""
    frames = torch.zeros(T + 1, n_envs, 16, 30, dtype=torch.uint8)
    start = torch.randint(0, 30, (n_envs,), generator=torch.Generator().manual_seed(seed))
    height = torch.randint(0, 15, (n_envs,), generator=torch.Generator().manual_seed(seed + 1))
    for t in range(T + 1):
        for n in range(n_envs):
            x, y = int(start[n] + t) % 29, int(height[n])
            frames[t, n, y : y + 2, x : x + 2] = 255
    return frames


def test_it_learns_where_a_thing_came_from_across_a_border():
    """After a short training the cell that a dot enters relies on the cell that it left, and on no other."""
    config = ControlConfig(
        *(2, 3), rtm=CONFIG, batch=32, learning_rate=1e-2, normalise="fixed", execution=ExecutionConfig(folded="on")
    )
    models = ControlModels(config, (16, 30), A)
    learner, still = ControlLearner(models), torch.zeros(33, 16, dtype=torch.bool)
    actions = torch.zeros(32, 16, dtype=torch.int64)
    for seed in range(12):
        learner.update(moving_dots(32, 16, seed), actions, still)
    models.modules.eval()
    frames = torch.zeros(3, 1, 16, 30, dtype=torch.uint8)
    for t, x in enumerate((7, 8, 9)):  # at 9 it shows in the second cell, whose border is at 10
        frames[t, 0, 3:5, x : x + 2] = 255
    stack, now = frames[:2].transpose(0, 1), frames[2]
    relation = models.attend(stack, actions[0, :1], now, None).relation[0]
    assert relation[1, 0] > 0.9
    assert torch.equal(relation[4], torch.eye(6)[4])


def test_a_faint_edge_says_less_than_what_was_drawn_and_an_empty_cell_nothing(monkeypatch):
    """A dot moves on inside cell 1. Its own cell draws that, all but a faint edge, which it draws a little wrong; the
    other cells draw nothing, and would be credited with the edge if all pixels spoke alike."""
    stack, now = torch.zeros(1, K, 16, 30), torch.zeros(1, 16, 30)
    stack[0, -1, 3, 14] = now[0, 3, 15] = 20.0
    now[0, 4, 14] = 1.0
    changed, change = now != stack[:, -1], now - stack[:, -1]

    def draw(seen, actions):
        own = rtm()
        drawn = own.windows(change)[0].clone()
        drawn[1, 4 + own.rows.reach, 4 + own.columns.reach] = -1.0
        drawn[torch.arange(6) != 1] = 0
        return drawn

    relations = {}
    for credit in ("explained", "even"):
        own = rtm(credit=credit)
        monkeypatch.setattr(own, "draw", draw)
        monkeypatch.setattr(own, "near", lambda changed: torch.ones(1, 6))
        none = torch.zeros(1, 6, dtype=torch.bool)
        relations[credit] = own.attend(stack, torch.zeros(1, dtype=torch.long), now, changed, none, SCALE)[0, 1]
    assert relations["explained"][1] > 0.99
    assert relations["even"][1] < 0.85
