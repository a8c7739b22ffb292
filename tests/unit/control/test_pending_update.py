import weakref

import pytest
import torch

from megareward.control.learning.pending_update import PendingUpdate


def pending_update(n_batches: int) -> tuple[PendingUpdate, list[int]]:
    """Batch i holds i + 2 numbers; the gradient steps taken so far are listed by the number of their batch."""
    taken: list[int] = []

    def train(batch: torch.Tensor) -> dict[str, torch.Tensor]:
        taken.append(len(batch) - 2)
        return {"loss": batch.float().sum()}

    return PendingUpdate(
        [torch.ones(i + 2, dtype=torch.int64) for i in range(n_batches)], train, torch.device("cpu")
    ), taken


@pytest.mark.parametrize(
    ("n_batches", "shares"), [(10, [3, 3, 2, 2]), (4, [1, 1, 1, 1]), (2, [1, 1, 0, 0]), (0, [0, 0, 0, 0])]
)
def test_the_steps_are_spread_over_the_moments_and_none_is_left_after_the_last(n_batches, shares):
    pending, taken = pending_update(n_batches)
    counts = []
    for steps_left in (4, 3, 2, 1):
        before = len(taken)
        pending.work(steps_left)
        counts.append(len(taken) - before)
    assert counts == shares
    assert taken == list(range(n_batches))


def test_the_end_takes_what_is_left_and_returns_means_over_all_steps():
    pending, taken = pending_update(3)
    pending.work(3)
    assert taken == [0]
    metrics = pending.finish()
    assert taken == [0, 1, 2]
    assert {name: value.item() for name, value in metrics.items()} == {"loss": 3.0, "control/transitions": 9.0}


def test_an_update_without_batches_has_nothing_to_say():
    assert {name: value.item() for name, value in pending_update(0)[0].finish().items()} == {"control/transitions": 0.0}


def test_batches_live_as_long_as_the_update():
    """A step on a GPU is launched before it runs: memory of a batch that is dropped at once could be used again."""
    batch = torch.ones(4, dtype=torch.int64)
    alive = weakref.ref(batch)
    pending = PendingUpdate([batch], lambda numbers: {}, torch.device("cpu"))
    del batch
    pending.finish()
    assert alive() is not None
    del pending
    assert alive() is None
