"""Empowerment where the answer is known: a grid world, in which K actions lead to a countable number of places."""

import itertools

import pytest
import torch

from megareward.rewards.emp import Empowerment
from megareward.rewards.settings import EmpConfig
from megareward.rollout import Recorded
from megareward.world import World

pytestmark = pytest.mark.learning

WALLS = [
    "#########",
    "#....#..#",
    "#....#..#",
    "#....##.#",
    "#.......#",
    "#####.###",
    "#....#..#",
    "#.##....#",
    "#########",
]
CELLS = [(r, c) for r, row in enumerate(WALLS) for c, here in enumerate(row) if here == "."]
MOVES = [(0, 0), (0, 1), (1, 0), (0, -1), (-1, 0)]
S, A, K, T, N = len(CELLS), len(MOVES), 2, 32, 64
OPEN_ROOM, DEAD_ENDS = (2, 2), ((1, 6), (7, 1), (6, 7))


def after() -> torch.Tensor:
    """(S, A) the cell that an action leads to; a wall leaves the agent where it is."""
    return torch.tensor(
        [
            [CELLS.index(to) if (to := (r + dr, c + dc)) in CELLS else i for dr, dc in MOVES]
            for i, (r, c) in enumerate(CELLS)
        ]
    )


def pictures() -> torch.Tensor:
    """(S, 9, 9) one pixel per cell."""
    frames = torch.tensor([[80 * (here == "#") for here in row] for row in WALLS], dtype=torch.uint8).repeat(S, 1, 1)
    for frame, (r, c) in zip(frames, CELLS, strict=True):
        frame[r, c] = 255
    return frames


def capacity(outcomes: torch.Tensor) -> float:
    """Blahut-Arimoto: nats that go through a channel of A^K inputs (rows) and S outputs, (A^K, S) probabilities."""
    source = torch.full((len(outcomes),), 1 / len(outcomes), dtype=torch.float64)
    for _ in range(1000):
        posterior = source[:, None] * outcomes / (source @ outcomes).clamp(min=1e-300)
        weight = (outcomes * posterior.clamp(min=1e-300).log()).sum(1).exp()
        source = weight / weight.sum()
    return float(weight.sum().log())


def capacities() -> torch.Tensor:
    """(S,) of the K actions from each cell."""
    found = []
    for cell in range(S):
        ends = torch.tensor([cell]).repeat(A**K)
        for actions in torch.tensor(list(itertools.product(range(A), repeat=K))).T:
            ends = after()[ends, actions]
        found.append(capacity(torch.eye(S, dtype=torch.float64)[ends]))
        assert found[-1] == pytest.approx(float(torch.tensor(float(len(ends.unique()))).log()), abs=1e-6)
    return torch.tensor(found)


def random_walk(generator: torch.Generator) -> Recorded:
    """T steps of N walkers; now and then one of them begins anew somewhere else."""
    cell, table = torch.randint(S, (N,), generator=generator), after()
    cells, actions, first = [cell], [], [torch.ones(N, dtype=torch.bool)]
    for _ in range(T):
        actions.append(torch.randint(A, (N,), generator=generator))
        first.append(torch.rand(N, generator=generator) < 0.05)
        cell = torch.where(first[-1], torch.randint(S, (N,), generator=generator), table[cell, actions[-1]])
        cells.append(cell)
    nothing = torch.zeros(T + 1, N, dtype=torch.bool)
    return Recorded(
        pictures()[torch.stack(cells)], torch.stack(actions), torch.stack(first), nothing, nothing, None, {}
    )


def every_cell() -> Recorded:
    """One step into every cell, to ask what it is worth."""
    nothing = torch.zeros(2, S, dtype=torch.bool)
    return Recorded(
        pictures().repeat(2, 1, 1, 1), torch.zeros(1, S, dtype=torch.int64), nothing, nothing, nothing, None, {}
    )


def ranks(x: torch.Tensor) -> torch.Tensor:
    """Equal values share the mean of their ranks."""
    return ((x[:, None] > x).sum(1) + (x[:, None] >= x).sum(1)).double()


def test_in_a_grid_world_it_is_the_logarithm_of_the_places_in_reach():
    """About half a minute. The reward is the one of Atari, networks included; only its learning rate sinks."""
    state, generator = None, torch.Generator().manual_seed(0)
    for learning_rate, n_rollouts in ((3e-3, 120), (1e-3, 60), (2e-4, 40)):
        settings = EmpConfig(steps=K, learning_rate=learning_rate, normalise_frames=2_000)
        reward = Empowerment(settings, World(N, A, (9, 9), torch.device("cpu"), seed=1), ends_count=True)
        if state is not None:
            reward.load_state_dict(state)
        for _ in range(n_rollouts):
            reward.update(random_walk(generator))
        state = reward.state_dict()
    learnt, known = reward.compute(every_cell())[0], capacities()
    assert known.max() - known.min() > 1.0
    assert (learnt - known).abs().max() < 0.1
    assert torch.corrcoef(torch.stack([ranks(learnt), ranks(known)]))[0, 1] > 0.9
    worth = dict(zip(CELLS, learnt.tolist(), strict=True))
    assert all(worth[dead_end] < worth[OPEN_ROOM] - 0.5 for dead_end in DEAD_ENDS)
