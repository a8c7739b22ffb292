"""Branches of mini games against the plainest form of the same: one loop over moments, alternatives and lags."""

import pytest
import torch

from megareward.cells import any_in_cells
from megareward.control.grid import Grid
from megareward.counterfactual.mini import Branches, merged
from megareward.envs.mini import MINI_GAMES, mini_config
from megareward.envs.mini.games import make_mini

GRID = Grid(4, 8, 32, 32)
N, T, LAGS = 3, 70, 5


def recorded(game, seed=0, **options):
    """T steps of N games: the environment before each step, the actions, what came of them."""
    env = make_mini(game, N, mini_config(game, **options))
    generator = torch.Generator().manual_seed(seed)
    step = env.reset(seed)
    befores, actions, steps = [], [], [step]
    for _ in range(T):
        befores.append(env.select(torch.arange(N)))
        actions.append(torch.randint(env.n_actions, (N,), generator=generator))
        steps.append(env.step(actions[-1]))
    return befores, actions, steps


def plain_truth(befores, actions, steps):
    """(T + 1, N, L, HW) by the definition: nothing is merged, and nothing is dropped because it came back."""
    n_actions = befores[0].n_actions
    truth = torch.zeros(T + 1, N, LAGS, GRID.n_cells)
    for s, before in enumerate(befores):
        for shift in range(1, n_actions):
            branch = before.select(torch.arange(N))
            taken = (actions[s] + shift) % n_actions
            counts = ~steps[s + 1].first  # (N,) while both are in this episode
            for n in range(1, min(LAGS, T - s) + 1):
                step, shown = branch.step(taken), steps[s + n]
                counts = counts & ~shown.first & ~step.first
                truth[s + n, :, n - 1] += any_in_cells(step.frames != shown.frames, GRID.H, GRID.W) * counts[:, None]
                if s + n < T:
                    taken = actions[s + n]
    return truth


@pytest.mark.parametrize("game", MINI_GAMES)
@pytest.mark.parametrize("options", [{}, {"moving_camera": True, "noisy_tv": True, "death_flash": True}])
def test_every_cell_and_lag_equals_the_definition(game, options):
    befores, actions, steps = recorded(game, max_steps=40, **options)
    expected = plain_truth(befores, actions, steps)
    env = befores[0].select(torch.arange(N))
    branches = Branches(env, GRID, LAGS)
    for t in range(1, T + 1):
        step = env.step(actions[t - 1])
        assert torch.equal(step.frames, steps[t].frames)
        changed = branches.step(actions[t - 1], step.first, step.frames)
        for n in range(1, LAGS + 1):
            assert torch.equal(changed[:, n - 1], expected[t, :, n - 1]), (t, n)
    assert torch.stack([step.first for step in steps[1:]]).any()  # resets were among it
    assert expected[:, :, -1].any()


def test_the_paddle_of_mini_pong_is_controlled_at_once_and_no_other_cell_is():
    env = make_mini("mini-pong", N)
    branches = Branches(env, GRID, LAGS)
    for _ in range(8):
        step = env.step(torch.ones(N, dtype=torch.int64))
        changed = branches.step(torch.ones(N, dtype=torch.int64), step.first, step.frames)
        columns = (changed[:, 0] > 0).view(N, 4, 8).any(1)
        assert torch.equal(columns, (torch.arange(8) == 7).expand(N, 8))  # the paddle's column of cells


def test_branches_that_came_back_are_dropped_and_equal_ones_are_kept_once():
    env = make_mini("mini-pong", N)
    branches = Branches(env, GRID, lags=60)
    for _ in range(30):  # up against the ceiling: where the paddle was before is soon forgotten
        actions = torch.ones(N, dtype=torch.int64)
        step = env.step(actions)
        branches.step(actions, step.first, step.frames)
    assert 0 < len(branches.owner) <= 4 * N
    assert branches.members.sum() > 0


def test_a_resumed_set_of_branches_goes_on_the_same():
    befores, actions, _ = recorded("mini-demon", max_steps=30)
    env = befores[0].select(torch.arange(N))
    whole, cut = Branches(env, GRID, LAGS), 20
    for t in range(cut):
        step = env.step(actions[t])
        whole.step(actions[t], step.first, step.frames)
    saved = whole.state_dict()
    other_env = env.select(torch.arange(N))
    resumed = Branches(other_env, GRID, LAGS)
    resumed.load_state_dict(saved)
    for t in range(cut, T):
        step, other = env.step(actions[t]), other_env.step(actions[t])
        expected = whole.step(actions[t], step.first, step.frames)
        assert torch.equal(expected, resumed.step(actions[t], other.first, other.frames))


def test_merging_finds_every_kind_once():
    table = torch.tensor([[1.0, 2.0], [3.0, 0.5], [1.0, 2.0], [2.0, 1.0], [3.0, 0.5]], dtype=torch.float64)
    examples, kind = merged(table)
    assert len(examples) == 3
    assert torch.equal(table[examples][kind], table)
